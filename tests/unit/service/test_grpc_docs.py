"""docs/grpc.md lists every method with its comment in proto/. Run this file as a program to write the table."""

from __future__ import annotations

import re
from pathlib import Path

from headwater.schemas.rpc.services import all_methods
from headwater.service.grpc.rpc_table import RPCS

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "grpc.md"
BEGIN, END = "test_grpc_docs.py: begin -->\n", "<!-- end -->"
_RPC = re.compile(r"  // (?P<said>[^\n]+)\n  rpc (?P<name>\w+)\(")
_SERVICE = re.compile(r"^service (\w+) {(.*?)^}", re.MULTILINE | re.DOTALL)


def comments() -> dict[str, str]:
    """What the sources say of each method, by service and method."""
    found: dict[str, str] = {}
    for file in sorted((ROOT / "proto").rglob("*.proto")):
        for service, body in _SERVICE.findall(file.read_text()):
            found |= {f"{service}/{one['name']}": one["said"] for one in _RPC.finditer(body)}
    return found


def table() -> str:
    said = comments()
    rows = ["| method | | right |", "|---|---|---|"]
    for method in sorted(all_methods(), key=lambda one: one.name):
        name = method.name.rpartition(".")[2]
        needs = sorted({route.needs.said for route in RPCS[method.name].routes if route.needs is not None})
        rows.append(f"| `{name}` | {said[name]} | {'; '.join(needs)} |")
    return "\n".join(rows) + "\n"


def test_the_page_lists_every_method_with_its_comment_and_its_right() -> None:
    text = PAGE.read_text()
    assert text.partition(BEGIN)[2].partition(END)[0] == table()


if __name__ == "__main__":
    text = PAGE.read_text()
    head, _, rest = text.partition(BEGIN)
    PAGE.write_text(head + BEGIN + table() + END + rest.partition(END)[2])
