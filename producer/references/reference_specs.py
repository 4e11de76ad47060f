"""Parses reference specs: `main`, `v1@<commit>`, `main~3`, `main^2`, `main*2026-01-31T12:00:00Z`. Pure.

A spec is a reference name (`-` is the default branch), a commit id, or both joined by `@`, then any number of steps, each from
where the one before has led: `~n` the n-th ancestor, `^1` the parent, `^2` what was merged in, `*time` the newest ancestor that
is not later than an RFC 3339 time or a number of milliseconds since 1970.
"""

from __future__ import annotations

import re
from enum import StrEnum

import msgspec

from headwater.producer.pointer_names import check_reference_name
from headwater.schemas.entry_ids import micros_of, parse_id
from headwater.schemas.errors import InvalidInput

DEFAULT_BRANCH = "-"
STEPS_MAX = 100
_SPEC = re.compile(r"([^@~^*]*)(?:@([^~^*]*))?((?:[~^*][^~^*]*)*)")
_STEP = re.compile(r"([~^*])([^~^*]*)")
_REMEDY = "Write name, name@commit, name~n, name^n, name*time, or a commit id of 64 hex digits."


class StepKind(StrEnum):
    ANCESTOR = "~"
    PARENT = "^"
    TIME = "*"


class Step(msgspec.Struct, frozen=True):
    kind: StepKind
    number: int
    """How many, which one, or microseconds."""


class ReferenceSpec(msgspec.Struct, frozen=True):
    name: str | None = None
    """None where only a commit is named; `-` for the default branch."""
    commit: bytes | None = None
    steps: tuple[Step, ...] = ()


def parse_reference_spec(text: str, field: str = "reference") -> ReferenceSpec:
    matched = _SPEC.fullmatch(text) if isinstance(text, str) else None
    if matched is None or not text:
        raise InvalidInput(f"{str(text)[:80]!r} names no reference.", field=field, remedy=_REMEDY)
    name, commit, steps = matched.groups()
    if commit is None and len(name) == 64:
        name, commit = "", name
    if not name and commit is None:
        raise InvalidInput(f"{text[:80]!r} names neither a reference nor a commit.", field=field, remedy=_REMEDY)
    if name and name != DEFAULT_BRANCH:
        check_reference_name(name, field)
    return ReferenceSpec(
        name or None, None if commit is None else parse_id(commit.lower(), field=field), _steps(steps, text, field)
    )


def _steps(steps: str, text: str, field: str) -> tuple[Step, ...]:
    parsed = tuple(_step(StepKind(kind), argument, text, field) for kind, argument in _STEP.findall(steps))
    if len(parsed) > STEPS_MAX:
        raise InvalidInput(f"it has {len(parsed)} steps.", field=field, remedy=f"Use at most {STEPS_MAX}.")
    return parsed


def _step(kind: StepKind, argument: str, text: str, field: str) -> Step:
    if argument.isascii() and argument.isdecimal() and len(argument) < 16:
        return Step(kind, int(argument) * (1_000 if kind is StepKind.TIME else 1))
    if kind is StepKind.TIME:
        return Step(kind, micros_of(argument, field=field))
    raise InvalidInput(
        f"{text[:80]!r}: {kind}{argument[:20]} is not a step.",
        field=field,
        remedy=f"Write a number after {kind}, e.g. {kind}1.",
    )
