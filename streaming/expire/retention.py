"""Parses retention rules (`cat/*/heads/main=90d, *=30d`), and finds the one for a pointer.

The first rule whose pattern matches a pointer applies. `30d` keeps what is younger, `100n` keeps the newest hundred entries,
`30d+100n` keeps both: an entry goes only if neither would keep it. The newest entry is always kept.

⚠ The history of who was granted which right is kept forever, unless a rule's pattern ends with the exact name of its pointer:
`grants=3650d`, `cat/*/roles=3650d`. A rule for everything, such as the default `*=30d`, does not cover it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase

import msgspec

from headwater.persistence.realms.realm_records import REALMS_POINTER
from headwater.persistence.records.principal_records import GRANTS_POINTER, PRINCIPALS_POINTER, ROLES_POINTER
from headwater.producer.access.policies import POLICIES_POINTER
from headwater.producer.pointer_names import parse_access_pointer
from headwater.schemas.errors import InvalidInput

DEFAULT_DAYS = 30
DEFAULT_RETENTION = f"*={DEFAULT_DAYS}d"
RULES_MAX = 1_000

_AMOUNT = re.compile(r"(\d{1,9})([smhdn])")
_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


class Retention(msgspec.Struct, frozen=True, kw_only=True):
    """How much of a pointer's history is kept; all of it, if both are None."""

    pattern: str = "*"
    age_seconds: int | None = None
    entries: int | None = None


DEFAULT = Retention(age_seconds=DEFAULT_DAYS * 86_400)
FOR_EVER = Retention()
ACCESS_POINTERS = frozenset({PRINCIPALS_POINTER, ROLES_POINTER, GRANTS_POINTER, POLICIES_POINTER, REALMS_POINTER})
"""With the roles and grants of each catalog: who may do what, and which realms exist."""


def parse_retention(text: str) -> list[Retention]:
    """Rules in order, separated by commas; `InvalidInput` names the one that is invalid."""
    rules = [_rule(part.strip()) for part in text.split(",") if part.strip()]
    if len(rules) > RULES_MAX:
        raise InvalidInput(f"{len(rules)} rules.", field="retention", remedy=f"Use at most {RULES_MAX}.")
    return rules


def retention_of(pointer: str, rules: Sequence[Retention]) -> Retention:
    """30 days if no rule matches; forever for pointers of rights."""
    of_access = is_of_access(pointer)
    fitting = (rule for rule in rules if fnmatchcase(pointer, rule.pattern) and (not of_access or _names(rule, pointer)))
    return next(fitting, FOR_EVER if of_access else DEFAULT)


def is_of_access(pointer: str) -> bool:
    """Whether it records who may do what, or which realms exist."""
    return pointer in ACCESS_POINTERS or parse_access_pointer(pointer) is not None


def retention_text(rule: Retention) -> str:
    """For people: `30d+100n`, or `forever`."""
    parts = [] if rule.age_seconds is None else [_age_text(rule.age_seconds)]
    parts += [] if rule.entries is None else [f"{rule.entries}n"]
    return "+".join(parts) or "forever"


def _age_text(seconds: int) -> str:
    unit = next(unit for unit in ("d", "h", "m", "s") if seconds % _SECONDS[unit] == 0)
    return f"{seconds // _SECONDS[unit]}{unit}"


def _names(rule: Retention, pointer: str) -> bool:
    return rule.pattern.rpartition("/")[2] == pointer.rpartition("/")[2]


def _rule(text: str) -> Retention:
    pattern, equals, amounts = text.rpartition("=")
    age: int | None = None
    entries: int | None = None
    for amount in amounts.split("+"):
        match = _AMOUNT.fullmatch(amount.strip())
        if match is None or not equals or not pattern:
            raise InvalidInput(
                f"{text!r} is not a retention rule.",
                field="retention",
                remedy="Write PATTERN=30d, PATTERN=100n or PATTERN=30d+100n (s, m, h, d; n for entries).",
            )
        number, unit = int(match.group(1)), match.group(2)
        if unit == "n":
            entries = number
        else:
            age = number * _SECONDS[unit]
    return Retention(pattern=pattern.strip(), age_seconds=age, entries=entries)
