"""Parses query strings into checked values; one error names every parameter that is wrong.

The tables below are what is parsed and what the OpenAPI shows: one source for both.
"""

from __future__ import annotations

from typing import Any, Literal
from urllib.parse import parse_qsl

import msgspec

from headwater.schemas.change import Kind, Op
from headwater.schemas.cursor import POINTERS_MAX
from headwater.schemas.errors import Fact, InvalidInput

QUERY_BYTES_MAX = 48 * 1024
FIELDS_MAX = 1_000


class Parameter(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    type: Literal["string", "integer", "number"] = "string"
    many: bool = False
    required: bool = False
    minimum: float | None = None
    maximum: float | None = None
    length_max: int = 1_000
    """Maximum length of a text, which may contain no control characters except the separator of levels."""
    items_max: int = 100
    choices: tuple[str, ...] = ()
    default: str | int | float | None = None
    description: str = ""


def parse_query(query: bytes, table: tuple[Parameter, ...]) -> dict[str, Any]:
    """A value for each parameter of the table: given, default, or None; a tuple for those that may come often."""
    given = given_parameters(query)
    faults: list[Fact] = []
    values: dict[str, Any] = {}
    known = {parameter.name for parameter in table}
    for name in given.keys() - known:
        faults.append({"name": name[:100], "detail": f"there is no such parameter; there are {', '.join(sorted(known))}."})
    for parameter in table:
        try:
            values[parameter.name] = _value(parameter, given.get(parameter.name, []))
        except ValueError as fault:
            faults.append({"name": parameter.name, "detail": str(fault)})
    if faults:
        raise _refusal(faults)
    return values


def given_parameters(query: bytes) -> dict[str, list[str]]:
    """Every name with its values, as they came."""
    if len(query) > QUERY_BYTES_MAX:
        raise InvalidInput(f"the query has {len(query)} bytes.", field="query", remedy=f"Use at most {QUERY_BYTES_MAX}.")
    given: dict[str, list[str]] = {}
    try:
        pairs = parse_qsl(query.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=FIELDS_MAX)
    except ValueError as error:
        raise InvalidInput(f"the query cannot be read: {error}.", field="query", remedy="Percent-encode UTF-8.") from None
    for name, value in pairs:
        given.setdefault(name, []).append(value)
    return given


def refuse_repeated(query: bytes, table: tuple[Parameter, ...]) -> None:
    """⚠ Of a parameter that comes twice, a proxy may have inspected the one that is not read here."""
    given = given_parameters(query)
    for parameter in table:
        count = len(given.get(parameter.name, ()))
        if count > 1 and not parameter.many:
            raise InvalidInput(f"it comes {count} times; it may come once.", field=parameter.name, remedy="Send it once.")


def _value(parameter: Parameter, given: list[str]) -> Any:
    if parameter.many:
        if len(given) > parameter.items_max:
            raise ValueError(f"it comes {len(given)} times; at most {parameter.items_max} are taken.")
        if parameter.required and not given:
            raise ValueError("it is missing.")
        return tuple(dict.fromkeys(_one(parameter, text) for text in given))
    if len(given) > 1:
        raise ValueError(f"it comes {len(given)} times; it may come once.")
    if not given:
        if parameter.required:
            raise ValueError("it is missing.")
        return parameter.default
    return _one(parameter, given[0])


def _one(parameter: Parameter, text: str) -> str | int | float:
    if parameter.type == "string":
        return _text(parameter, text)
    try:
        number = _integer(text) if parameter.type == "integer" else _number(text)
    except ValueError:
        raise ValueError(f"{text[:40]!r} is no {parameter.type}.") from None
    low, high = parameter.minimum, parameter.maximum
    if (low is not None and number < low) or (high is not None and number > high):
        raise ValueError(f"{text[:40]} is not within {low:g} to {high:g}.")
    return number


def _integer(text: str) -> int:
    if not (text.isascii() and text.removeprefix("-").isdecimal() and len(text) < 20):
        raise ValueError
    return int(text)


def _number(text: str) -> float:
    if not text.isascii() or len(text) > 40 or "_" in text:
        raise ValueError
    number = float(text)
    if number != number or number in (float("inf"), float("-inf")):
        raise ValueError
    return number


def _text(parameter: Parameter, text: str) -> str:
    if parameter.choices and text not in parameter.choices:
        raise ValueError(f"{text[:40]!r} is none of {', '.join(parameter.choices)}.")
    if not text:
        raise ValueError("it is empty.")
    if len(text.encode()) > parameter.length_max:
        raise ValueError(f"it has {len(text.encode())} bytes; at most {parameter.length_max} are taken.")
    if any(ord(character) < 32 and character != "\x1f" for character in text) or "\x7f" in text:
        raise ValueError("it has control characters.")
    return text


def _refusal(faults: list[Fact]) -> InvalidInput:
    named = [fault for fault in faults if isinstance(fault, dict)]
    said = " ".join(f"{fault['name']}: {fault['detail']}" for fault in named)
    return InvalidInput(
        said, field=str(named[0]["name"]), remedy="`/openapi.json` describes every parameter.", parameters=faults
    )


# ── tables ──────────────────────────────────────────────────────────────────────────────────────────────────

PAGE_LIMIT_MAX = 1_000
WAIT_SECONDS_MAX = 60
CURSOR_BYTES_MAX = 20_000
"""Fits a token over a hundred pointers with long names."""

_POINTER = Parameter(
    name="pointer",
    many=True,
    items_max=POINTERS_MAX,
    description="Name of a pointer; several make one feed. May be left out where `after` is a cursor token.",
)
_NAMED = (
    Parameter(name="catalog", length_max=256, description="Name of a catalog, in place of a pointer: its branch is read."),
    Parameter(name="branch", length_max=256, description="Name of the branch; the catalog's default branch, if left out."),
)
_AFTER = Parameter(
    name="after",
    length_max=CURSOR_BYTES_MAX,
    description="Exclusive: a commit or entry id, a seq, a cursor token, an RFC 3339 time, `earliest` or `latest`.",
)
_FILTERS = (
    Parameter(name="kind", many=True, choices=tuple(str(kind) for kind in Kind), description="Only these kinds."),
    Parameter(name="op", many=True, choices=tuple(str(op) for op in Op), description="Only Changes with such operations."),
    Parameter(name="type", many=True, description="Only Changes of such contents, e.g. ICEBERG_TABLE; deletions too."),
    Parameter(name="prefix", description="Only keys at or below, level by level: `db.sales`, or levels separated by %1F."),
    Parameter(name="content_id", many=True, length_max=36, description="Only Changes of these contents."),
)
_LIMIT = Parameter(
    name="limit", type="integer", minimum=1, maximum=PAGE_LIMIT_MAX, default=100, description="How many at most."
)
_WAIT = Parameter(
    name="wait",
    type="number",
    minimum=0,
    maximum=WAIT_SECONDS_MAX,
    default=0.0,
    description="Seconds to wait for the first Change.",
)

CHANGES = (_POINTER, *_NAMED, _AFTER, _LIMIT, _WAIT, *_FILTERS)
STREAM = (
    _POINTER,
    *_NAMED,
    _AFTER,
    Parameter(
        name="heartbeat",
        type="number",
        minimum=0.1,
        maximum=300,
        description="Seconds without news after which a bookmark is sent.",
    ),
    *_FILTERS,
)
POINTERS = (
    Parameter(name="prefix", description="Only names that begin with this."),
    Parameter(name="token", description="`next_token` of the previous page."),
    _LIMIT,
)
SNAPSHOT = (
    Parameter(name="pointer", description="Name of a pointer; required without a token or a catalog."),
    *_NAMED,
    Parameter(
        name="at", length_max=CURSOR_BYTES_MAX, default="latest", description="An id, a seq, a cursor, a time or `latest`."
    ),
    Parameter(name="token", length_max=10_000, description="`next_token` of the previous page; the entry is pinned by it."),
    Parameter(name="limit", type="integer", minimum=1, maximum=10_000, default=1_000, description="How many keys at most."),
)
REFERENCE_LOG = (
    Parameter(name="catalog", required=True, length_max=256, description="Name of the catalog."),
    _FILTERS[0],
    Parameter(name="token", length_max=10_000, description="`next_token` of the previous page."),
    _LIMIT,
)
SUBSCRIPTION_CHANGES = (_LIMIT, _WAIT)
DELETE_SUBSCRIPTION = (Parameter(name="version", description="Delete only if it still has this version."),)
NO_PARAMETERS: tuple[Parameter, ...] = ()
