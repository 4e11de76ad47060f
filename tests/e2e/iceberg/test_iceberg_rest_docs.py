"""The page about the Iceberg REST catalog says of every route, update and requirement what the server does with it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest
from pyiceberg.table.update import TableRequirement, TableUpdate

from headwater.service.gate.route import Route
from headwater.service.iceberg.call import PREFIX
from headwater.service.iceberg.metadata.table_requests import TABLE_REQUIREMENTS, TABLE_UPDATES
from headwater.service.iceberg.metadata.view_updates import VIEW_REQUIREMENTS, VIEW_UPDATES
from headwater.service.iceberg.routes import ICEBERG, endpoints
from tests.support.fixtures.iceberg_lake import IcebergLake

PAGE = (Path(__file__).parents[3] / "docs" / "iceberg-rest.md").read_text()
SUPPORTED, REFUSED = "supported", "refused: 406 `UnsupportedOperationException`"


def test_the_page_lists_every_route_and_its_support() -> None:
    listed = re.findall(r"^\| `([A-Z]+ /\S+)` \| (.*) \|$", PAGE, re.MULTILINE)
    assert listed == [
        (f"{one.method} {one.path.removeprefix(PREFIX)}", SUPPORTED if one.handler else REFUSED) for one in ICEBERG.routes
    ]


def test_the_page_lists_every_update_and_requirement() -> None:
    listed = re.findall(r"^\| (table|view) (update|requirement) \| `(\S+)` \| (.*) \|$", PAGE, re.MULTILINE)
    assert listed == [
        *(("table", "update", name, SUPPORTED) for name in TABLE_UPDATES),
        *(("table", "requirement", name, SUPPORTED) for name in TABLE_REQUIREMENTS),
        *(("view", "update", name, SUPPORTED) for name in VIEW_UPDATES),
        *(("view", "requirement", name, SUPPORTED) for name in VIEW_REQUIREMENTS),
    ]


def test_requests_of_pyiceberg_are_supported() -> None:
    def names(union: object, field: str) -> set[str]:
        return {model.model_fields[field].default for model in get_args(get_args(union)[0])}

    assert names(TableUpdate, "action") <= set(TABLE_UPDATES)
    assert names(TableRequirement, "type") == set(TABLE_REQUIREMENTS)


@pytest.mark.parametrize(
    "route", [one for one in ICEBERG.routes if one.handler is None], ids=lambda one: f"{one.method} {one.path}"
)
def test_a_refused_route_answers_as_documented(lake: IcebergLake, route: Route) -> None:
    method, path = route.method, route.path.removeprefix(PREFIX)
    relative = re.sub(r"\{[^}]+\}", "x", path.removeprefix("/v1/{prefix}/"))
    lake.refused(method, relative, 406, "UnsupportedOperationException")
    assert f"{method} {path}" not in endpoints()
