"""Compares OpenAPI descriptions: for each operation, parameters and answers that a published one has and ours lacks. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

METHODS = ("get", "head", "post", "put", "delete")


class Operation(msgspec.Struct, frozen=True):
    parameters: frozenset[str]
    """Of queries and headers: what a path holds is in the path."""
    answers: frozenset[str]


Operations = Mapping[str, Operation]
"""By method and path."""


def operations_of(description: Mapping[str, Any], prefix: str = "", names: Mapping[str, str] | None = None) -> Operations:
    """Those whose path begins with the prefix, without it; `names` replaces parts of paths."""
    found = {}
    for path, item in description["paths"].items():
        if not path.startswith(f"{prefix}/"):
            continue
        told = path.removeprefix(prefix)
        for theirs, ours in (names or {}).items():
            told = told.replace(theirs, ours)
        for method in METHODS:
            if method in item:
                given = [*item.get("parameters", ()), *item[method].get("parameters", ())]
                found[f"{method.upper()} {told}"] = Operation(
                    frozenset(one["name"] for one in _resolved(description, given) if one["in"] != "path"),
                    frozenset(str(status) for status in item[method]["responses"]),
                )
    return found


def operations_text(operations: Operations) -> str:
    return "".join(
        f"{name} | {' '.join(sorted(one.parameters))} | {' '.join(sorted(one.answers))}\n" for name, one in operations.items()
    )


def read_operations(text: str) -> Operations:
    rows = ([part.strip() for part in line.split("|")] for line in text.splitlines())
    return {name: Operation(frozenset(given.split()), frozenset(answers.split())) for name, given, answers in rows}


def missing(ours: Operations, published: Operations) -> list[str]:
    """What is published and not ours, a line each."""
    lines = []
    for name, theirs in published.items():
        mine = ours.get(name)
        if mine is None:
            lines.append(f"{name}: the operation")
            continue
        lines += [f"{name}: parameter {one}" for one in theirs.parameters - mine.parameters]
        lines += [f"{name}: answer {one}" for one in theirs.answers - mine.answers]
    return sorted(lines)


def _resolved(description: Mapping[str, Any], given: list[Any]) -> Iterator[Mapping[str, Any]]:
    for one in given:
        while "$ref" in one:
            found: Any = description
            for part in one["$ref"].removeprefix("#/").split("/"):
                found = found[part]
            one = found
        yield one
