"""The management routes against their description: each found, each fuzzed, no 500 and no answer that is not described."""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Iterator
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given
from hypothesis.errors import Unsatisfiable

from headwater.schemas.http.feed_json import Problem
from headwater.service.manage.route import PREFIX
from headwater.service.manage.routes import MANAGE
from headwater.service.root.openapi import openapi
from headwater.service.routes import route_table
from tests.support.faults.fuzzing import asking
from tests.support.servers.feed_server import FeedServer, feed_server

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import schemathesis

SOAK = os.environ.get("HEADWATER_SOAK") == "1"
EXAMPLES = 8 if SOAK else 1
MANAGE_ROUTES = [route for route in MANAGE.routes if route.form is None]
BY_OPERATION = {(route.path, route.method): route for route in MANAGE_ROUTES}
NAMES = {"realm": "default", "catalog": "lake", "principal": "root", "role": "admin"}
"""What is there already: else everything would be answered with 404."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FeedServer]:
    with feed_server(f"sqlite:///{tmp_path_factory.mktemp('manage')}/lake.db", settings={"request_bytes_max": 100_000}) as one:
        yield one


def test_every_route_is_described_and_found() -> None:
    paths = openapi(route_table())["paths"]
    for route in MANAGE_ROUTES:
        described = paths[route.path][route.method.lower()]
        names = [parameter["name"] for parameter in described["parameters"] if parameter["in"] == "query"]
        assert names == [parameter.name for parameter in route.parameters]
        assert route_table().find({"path": route.path}).by_method[route.method] is route


class Asked:
    """One operation, asked with what schemathesis makes of its description."""

    def __init__(self, server: FeedServer, operation: Any, described: dict[str, Any]) -> None:
        self.route = BY_OPERATION[operation.path, operation.method.upper()]
        self._server = server
        self._operation = operation
        self._documented = described["paths"][self.route.path][self.route.method.lower()]["responses"]
        self.statuses: list[int] = []

    def ask_all(self, mode: schemathesis.GenerationMode) -> None:
        @given(case=self._operation.as_strategy(generation_mode=mode))
        @asking(EXAMPLES)
        def ask(case: Any) -> None:
            if not self.route.path.startswith(f"{PREFIX}/realms"):
                case.path_parameters |= {name: value for name, value in NAMES.items() if name in case.path_parameters}
            if mode is schemathesis.GenerationMode.POSITIVE and isinstance(case.body, dict) and "name" in case.body:
                case.body["name"] = f"n{len(self.statuses)}"
            self._ask(case)

        with contextlib.suppress(Unsatisfiable):  # an operation without parameters has nothing that does not fit
            ask()

    def _ask(self, case: Any) -> None:
        answer = case.call(base_url=self._server.url, timeout=30)
        told = f"{case.as_curl_command()}\n{answer.text}"
        self.statuses.append(answer.status_code)
        if answer.status_code in (414, 431):  # of the server below us, before we are asked
            return
        assert answer.status_code < 500, told
        assert str(answer.status_code) in self._documented or answer.status_code == 405, told
        kind = Problem if answer.status_code >= 400 else self.route.answer
        if kind is not None:
            msgspec.json.decode(answer.content, type=kind, strict=True)


@pytest.mark.timeout(1_200)
def test_valid_and_nearly_valid_requests_are_answered_as_described(server: FeedServer) -> None:
    described = openapi(route_table())
    described["paths"] = {path: described["paths"][path] for path in {route.path: None for route in MANAGE_ROUTES}}
    statuses: list[int] = []
    for result in schemathesis.openapi.from_dict(described).get_all_operations():
        asked = Asked(server, cast(Any, result).ok(), described)
        for mode in (schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE):
            asked.ask_all(mode)
        statuses += asked.statuses
    assert len(statuses) > 100 and {200, 201, 400, 404} <= set(statuses), statuses
