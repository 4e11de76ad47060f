"""Every route of the description that the Iceberg project publishes is supported, or refused with a reason in the docs."""

from __future__ import annotations

import re
from pathlib import Path

from headwater.service.iceberg.call import PREFIX
from headwater.service.iceberg.routes import ICEBERG, endpoints

HERE = Path(__file__).parent
PAGE = (HERE.parents[1] / "docs" / "iceberg-rest.md").read_text()
PUBLISHED = (HERE / "iceberg-routes.txt").read_text().splitlines()
"""Method and path of each operation of Iceberg's `rest-catalog-open-api.yaml`, in its order."""


def test_every_published_route_is_in_the_table_and_no_other() -> None:
    ours = {f"{route.method} {route.path.removeprefix(PREFIX)}" for route in ICEBERG.routes}
    assert sorted(ours) == sorted(PUBLISHED)


def test_every_refused_route_has_a_reason() -> None:
    refused = {f"{route.method} {route.path.removeprefix(PREFIX)}" for route in ICEBERG.routes if route.handler is None}
    reasons = dict(re.findall(r"^\| `([A-Z]+ /\S+)`, refused \| (.+) \|$", PAGE, re.MULTILINE))
    assert refused - reasons.keys() == set()
    assert not refused & set(endpoints()), "clients are told of a route that is refused"
