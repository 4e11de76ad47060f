"""The page about rights lists just those that there are, and the right of every Iceberg route."""

from __future__ import annotations

from pathlib import Path

from headwater.producer.access.rights import IMPLIED, REALM_ONLY, Right
from headwater.service.auth.feed_view import REALM_POINTER_RIGHTS
from headwater.service.gate.route import Needs
from headwater.service.iceberg.call import PREFIX
from headwater.service.iceberg.routes import ICEBERG

PAGE = (Path(__file__).parents[3] / "docs" / "access.md").read_text()


def _table(first_cell: str) -> list[str]:
    lines = PAGE.splitlines()
    start = lines.index(next(line for line in lines if line.startswith(f"| {first_cell} |"))) + 2
    return lines[start : next(at for at in range(start, len(lines)) if not lines[at].startswith("|"))]


def _right(right: Right) -> str:
    every = "all other rights of the realm"
    implied = every if right is Right.REALM_MANAGE else ", ".join(f"`{one}`" for one in Right if one in IMPLIED.get(right, ()))
    over = "a realm" if right in REALM_ONLY else "a realm, a catalog, a path"
    return f"| `{right}` | {implied} | {'`::system::`' if right is Right.SYSTEM_MANAGE else over} |"


def _route(method: str, path: str, need: Needs) -> str:
    right = "any" if need.right is None else f"`{need.right}`" + (f", then `{need.also}`" if need.also else "")
    return f"| `{method} {path}` | {right} | {need.where} |"


def test_the_docs_list_exactly_the_rights() -> None:
    assert _table("right") == [_right(right) for right in Right]


def test_the_docs_list_the_right_of_every_iceberg_route() -> None:
    assert _table("route") == [
        _route(route.method, route.path.removeprefix(PREFIX), route.needs)
        for route in ICEBERG.routes
        if route.handler is not None and route.needs is not None and not route.needs.is_public
    ]


def test_the_docs_name_the_right_for_each_pointer_of_a_realm() -> None:
    for pointer, right in REALM_POINTER_RIGHTS.items():
        assert f"`{pointer}`" in PAGE and f"`{right}`" in PAGE
