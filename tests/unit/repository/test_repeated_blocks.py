"""No logic stands twice: blocks of six lines or more that two places share, to the letter.

Imports, decorators, the parameters of functions, fields of classes, blank lines, comments and lone brackets do not count: what
is declared alike is not logic. Generated code is left out.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
FOLDERS = ("bench", "consumers", "headwater", "persistence", "producer", "schemas", "service", "streaming")
LINES = 6
THIN = re.compile(r"[\[\](){},:\"']*|try:|else:|finally:|return None|pass")

KNOWN = {
    ("consumers/clients/client_credentials.py", "consumers/clients/client_credentials.py"): (
        "httpx wants the flow once for each kind of client; all that is decided is in `auth_flow`"
    ),
    ("consumers/clients/grpc_stream/grpc_transport.py", "consumers/clients/grpc_stream/grpc_transport.py"): (
        "two drivers of one `exchange`, which does no I/O: one waits, the other awaits"
    ),
    ("persistence/backends/cassandra/pointers.py", "persistence/backends/sql/sql_backend.py"): (
        "both name the fields of a row, in their own columns: a common helper would be longer"
    ),
}
"""Pairs that stay, each with its reason."""


def _logic(path: Path) -> list[tuple[int, str]]:
    """The lines that count, with their numbers."""
    source = path.read_text()
    declared: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            declared.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
            declared.update(range(first, node.body[0].lineno))
        elif isinstance(node, ast.ClassDef):
            for one in node.body:
                if isinstance(one, ast.AnnAssign):
                    declared.update(range(one.lineno, (one.end_lineno or one.lineno) + 1))
    lines = ((number, line.strip()) for number, line in enumerate(source.splitlines(), 1) if number not in declared)
    return [(number, line) for number, line in lines if not line.startswith("#") and not THIN.fullmatch(line)]


def _repeated(files: dict[str, list[tuple[int, str]]]) -> dict[tuple[str, str], str]:
    places: dict[tuple[str, ...], list[tuple[str, int]]] = defaultdict(list)
    for name, lines in files.items():
        for start in range(len(lines) - LINES + 1):
            places[tuple(line for _, line in lines[start : start + LINES])].append((name, start))
    found: dict[tuple[str, str], str] = {}
    for here in places.values():
        for (one, first), (other, second) in pairwise(here):
            if one != other or second - first >= LINES:
                found.setdefault((one, other), f"{one}:{files[one][first][0]} ~ {other}:{files[other][second][0]}")
    return found


def _product() -> dict[str, list[tuple[int, str]]]:
    paths = (path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py")))
    own = (path for path in paths if path.resolve() == path and "_pb2" not in path.name)
    return {str(path.relative_to(ROOT)): _logic(path) for path in own}


def test_no_block_of_six_lines_is_duplicated() -> None:
    found = _repeated(_product())
    assert not [place for pair, place in found.items() if pair not in KNOWN]
    assert set(KNOWN) <= set(found), "a pair that is gone needs no reason any more"


def test_a_duplicated_block_is_found() -> None:
    block = [(number, f"line {number}") for number in range(LINES)]
    assert _repeated({"a": [(0, "x"), *block], "b": [*block, (9, "y")]}) == {("a", "b"): "a:0 ~ b:0"}
    assert _repeated({"a": block[1:], "b": block[1:]}) == {}
