"""Reads what a policy of the type `retention` says: how long the history of a branch stays in the feed. Pure."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from headwater.schemas.change import Value
from headwater.schemas.errors import InvalidInput

RETENTION_TYPE = "retention"
DAYS_MAX = 100_000


class RetentionPolicy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Keeps what is younger than `days`, and the newest `entries`; `forever` keeps everything."""

    days: Annotated[float, Meta(ge=0, le=DAYS_MAX)] | None = None
    entries: Annotated[int, Meta(ge=0, le=2**53)] | None = None
    forever: bool = False


def read_retention(content: Value) -> RetentionPolicy:
    """`InvalidInput` unless it says how much is kept."""
    try:
        policy = msgspec.convert(content, RetentionPolicy)
    except msgspec.ValidationError as error:
        raise _refused(f"a retention policy cannot say that: {error}.") from None
    is_limited = policy.days is not None or policy.entries is not None
    if is_limited == policy.forever:
        raise _refused("it must keep some days, some entries or both, or everything forever.")
    return policy


def _refused(message: str) -> InvalidInput:
    remedy = 'Write {"days": 90}, {"entries": 100}, {"days": 90, "entries": 100} or {"forever": true}.'
    return InvalidInput(message, field="content", remedy=remedy)
