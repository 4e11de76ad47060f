"""The page about the Nessie-compatible API lists every route with its right, and the variables that filters have."""

from __future__ import annotations

import re
from pathlib import Path

from headwater.service.nessie.call import PREFIX
from headwater.service.nessie.operations.filters import FIELDS
from headwater.service.nessie.routes import NESSIE

PAGE = (Path(__file__).parents[3] / "docs" / "nessie.md").read_text()


def test_the_page_lists_every_route_and_its_right() -> None:
    listed = re.findall(r"^\| `([A-Z]+ /\S+)` \| `(\S+)`(, over each key)? \|$", PAGE, re.MULTILINE)
    assert listed == [
        (
            f"{one.method} {one.path.removeprefix(PREFIX)}",
            str(one.needs.right),
            ", over each key" if one.needs.where == "each key" else "",
        )
        for one in NESSIE.routes
        if one.needs is not None
    ]


def test_the_page_names_every_field_that_entries_and_references_have() -> None:
    for name in ("entry", "ref"):
        (line,) = [line for line in PAGE.splitlines() if line.startswith("|") and f"`{name}` (" in line]
        assert {f"`{field}`" in line for field in FIELDS[name]} == {True}, name
