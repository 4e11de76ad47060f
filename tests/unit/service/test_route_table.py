"""The table of routes: what it refuses to start with, and how it matches paths."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from headwater.service.auth.rights.rights import REALM, Right
from headwater.service.gate.problem_shape import PROBLEMS
from headwater.service.gate.request import Request
from headwater.service.gate.route import BODY, NO_BODY, Api, Needs, Route, public
from headwater.service.gate.route_table import RouteTable
from headwater.service.http.responses import Response
from headwater.service.routes import route_table


def _answer(request: Request) -> Response:
    return Response(200, [], b"")


class Body(msgspec.Struct):
    text: str


GOOD: dict[str, Any] = {
    "method": "GET",
    "path": "/x/{name}",
    "summary": "One.",
    "handler": _answer,
    "needs": Needs(right=Right.CATALOG_READ, where="the realm", path=lambda request: [(Right.CATALOG_READ, REALM)]),
    "budget": NO_BODY,
}
ROOT = Api(name="root", prefix="", summary="", errors=PROBLEMS, routes=())


def _table(*routes: dict[str, Any], **api: Any) -> RouteTable:
    chosen: dict[str, Any] = {"name": "x", "prefix": "/x", "summary": "", "errors": PROBLEMS, **api}
    return RouteTable((ROOT, Api(**chosen, routes=tuple(Route(**{**GOOD, **route}) for route in routes))))


@pytest.mark.parametrize(
    ("route", "api", "said"),
    [
        ({"needs": None}, {}, "does not say which right"),
        ({"needs": Needs(right=Right.CATALOG_READ, where="nowhere")}, {}, "does not say which right"),
        ({"needs": Needs(right=None, where="?", path=lambda request: [])}, {}, "does not say which right"),
        ({"budget": None}, {}, "does not say what it may cost"),
        ({"body": Body}, {}, "without a budget"),
        ({"budget": BODY}, {}, "without a budget"),
        ({}, {"errors": None}, "does not say how it renders errors"),
        ({"path": "/y"}, {}, "is not below"),
    ],
)
def test_a_route_without_a_right_a_budget_or_an_error_shape_does_not_start(
    route: dict[str, Any], api: dict[str, Any], said: str
) -> None:
    assert _table({}), "or the others prove nothing"
    with pytest.raises(ValueError, match=said):
        _table(route, **api)


def test_a_route_that_is_declared_twice_does_not_start() -> None:
    with pytest.raises(ValueError, match="twice"):
        _table({}, {"path": "/x/{other}"})


def test_routes_that_name_no_further_statuses_have_those_of_their_api() -> None:
    routes = ({}, {"method": "POST"}, {"method": "PUT", "also": (410,)})
    table = _table(*routes, also=lambda route: () if route.method == "GET" else (409,))
    assert {route.method: route.also for _, route in table.routes} == {"GET": (), "POST": (409,), "PUT": (410,)}


def test_a_word_wins_over_a_name_and_a_name_over_nothing() -> None:
    table = _table({"path": "/x/{name}/a"}, {"path": "/x/word/{name}"}, {"path": "/x/{name}/{more}/b"})
    for path, route, names in (
        ("/x/word/a", "/x/word/{name}", {"name": "a"}),
        ("/x/other/a", "/x/{name}/a", {"name": "other"}),
        ("/x/word/c/b", "/x/{name}/{more}/b", {"name": "word", "more": "c"}),
    ):
        found = table.find({"path": path})
        assert (found.by_method["GET"].path, found.names) == (route, names)
    assert not table.find({"path": "/x//a"}).by_method, "a name is not empty"


def test_names_are_read_from_the_raw_path() -> None:
    table = _table({})
    for raw in (b"/x/a%2Fb", b"/x/a%2Fb", b"/x/a%2fb?c=d"):
        assert table.find({"path": "/x/a/b", "raw_path": raw}).names == {"name": "a/b"}


def test_an_unknown_path_is_of_the_api_whose_word_it_begins_with() -> None:
    for path, name in (("/feed/nothing", "feed"), ("/iceberg", "iceberg"), ("/apis", "root"), ("/nothing", "root")):
        found = route_table().find({"path": path})
        assert found.api.name == name and not found.by_method


def test_a_public_route_gives_its_reason() -> None:
    assert _table({"needs": public("it is the same for all")})
    for _, route in route_table().routes:
        assert route.needs is not None and route.needs.where, route.path
