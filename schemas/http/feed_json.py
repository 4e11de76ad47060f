"""JSON bodies of the HTTP feed: the server encodes them, clients decode them, the OpenAPI is generated from them.

A page of one pointer has `range` and `head`. A page of several has `ranges` and `heads` by pointer name, and its `changes` are
merged by time, each pointer's in order. An event of the stream carries the same page.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from headwater.schemas.change import Change, KeyPath, Kind, Op, Value


class Range(msgspec.Struct, frozen=True):
    """The page covers all of (from, to]: a reader at `from` is at `to` afterwards."""

    from_: int = msgspec.field(name="from")
    to: int


class Head(msgspec.Struct, frozen=True):
    """A pointer's newest entry, as far as the server knew when it answered."""

    seq: int
    entry_id: str
    commit_id: str


class FeedPage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Changes after a cursor, oldest first, never a part of one; without Changes it is a bookmark."""

    changes: tuple[Change, ...]
    cursor: Annotated[str, Meta(description="Continues after this page; send it as `after`.")]
    range: Range | None = None
    head: Head | None = None
    ranges: dict[str, Range] | None = None
    heads: dict[str, Head] | None = None
    withheld: Annotated[bool, Meta(description="You may not see everything: ranges cover more than what is shown.")] = False


# ── the stream ──────────────────────────────────────────────────────────────────────────────────────────────


class StreamEvent(StrEnum):
    """The `event` field of a server-sent event: `changes` and `bookmark` carry a `FeedPage`, `end` a `StreamEnd`."""

    CHANGES = "changes"
    BOOKMARK = "bookmark"
    END = "end"


class EndReason(StrEnum):
    SLOW = "slow"
    """The reader took longer than the server waits for one; come back with the cursor."""
    SHUTDOWN = "shutdown"
    """The server goes away; come back with the cursor, perhaps to another one."""
    FAILED = "failed"
    """The feed cannot continue from there: `problem` says why."""


class StreamEnd(msgspec.Struct, frozen=True, kw_only=True):
    """The last event of a stream that the server ends."""

    reason: EndReason
    cursor: str
    problem: Problem | None = None


# ── errors ──────────────────────────────────────────────────────────────────────────────────────────────────


class ParameterProblem(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    detail: str


class Problem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """RFC 9457. Distinguish errors by `code`: CURSOR_EXPIRED, CURSOR_RESET and CURSOR_AHEAD call for different reactions."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    retriable: bool
    field: str | None = None
    remedy: str | None = None
    facts: dict[str, Any] = {}
    parameters: list[ParameterProblem] = []
    """Every parameter that is not valid, if the problem is about parameters."""
    request_id: str | None = None
    oldest: int | None = None
    """With CURSOR_EXPIRED and CURSOR_RESET: the oldest seq that the feed still has,"""
    head: int | None = None
    """the newest one,"""
    snapshot_url: str | None = None
    """and where to start over."""
    message: str | None = None
    """What exactly is wrong, in English, where `detail` is in another language."""


# ── pointers, snapshots, commits ────────────────────────────────────────────────────────────────────────────


class PointerKind(StrEnum):
    BRANCH = "branch"
    TAG = "tag"
    RECORDS = "records"
    """Catalogs, principals, grants and the like."""


class PointerInfo(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    kind: PointerKind
    seq: int
    commit_id: str
    oldest_seq: int
    """The oldest seq that the feed still has."""
    deleted: bool = False
    entry_id: str = ""
    """Of the newest entry."""


class PointersPage(msgspec.Struct, frozen=True, kw_only=True):
    pointers: list[PointerInfo]
    next_token: str | None = None
    realm_instance: str = ""
    """The realm as cursors name it. If this changes, the realm was deleted and created again under the same name."""


class ReferenceLogAnswer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Moves of all branches and tags of a catalog, newest first."""

    changes: list[Change]
    next_token: Annotated[str | None, Meta(description="Continues with older ones, also where this page is empty.")] = None
    withheld: Annotated[bool, Meta(description="You may not see every key: Changes of others are left out.")] = False


class SnapshotEntry(msgspec.Struct, frozen=True, kw_only=True):
    key: KeyPath
    type: str
    content_id: str
    value: Value


class StatePage(msgspec.Struct, frozen=True, kw_only=True):
    """Keys of the state at one entry, in key order. Reading the feed after `cursor` continues without a gap."""

    pointer: str
    at: Head
    entries: list[SnapshotEntry]
    cursor: str
    next_token: str | None = None


class CommitBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    catalog: str
    operations: list[dict[str, Any]]
    branch: str | None = None
    """The catalog's default branch, if left out."""
    author: str | None = None
    message: str = ""
    headers: dict[str, str] = {}
    expected_head: str | None = None
    """Refuse unless the branch is at this commit."""
    base_commit: str | None = None
    """The commit that the caller has read: refuse if keys of this request have changed since."""


class CommitAnswer(msgspec.Struct, frozen=True, kw_only=True):
    pointer: str
    commit_id: str
    """The branch's commit afterwards."""
    seq: int
    replayed: bool
    """The same Idempotency-Key had been committed before: this is that commit."""
    change: Change | None
    """None when there was nothing to do."""


# ── subscriptions ───────────────────────────────────────────────────────────────────────────────────────────


class FilterBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    kinds: tuple[Kind, ...] = ()
    operations: tuple[Op, ...] = ()
    types: tuple[str, ...] = ()
    prefix: KeyPath = ()
    content_ids: tuple[str, ...] = ()


class SubscriptionBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pointers: Annotated[list[str], Meta(min_length=1, max_length=1_000)]
    after: str = "latest"
    """A seq, an id or a time too where there is one pointer."""
    filter: FilterBody = FilterBody()
    pin_seconds: Annotated[int, Meta(ge=0, le=90 * 24 * 3600)] = 7 * 24 * 3600
    """How long after its last acknowledgement the subscription still keeps history from being cut."""


class SubscriptionPosition(msgspec.Struct, frozen=True, kw_only=True):
    seq: int
    entry_id: str = ""


class SubscriptionInfo(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    version: str
    """Changes with every write; an acknowledgement sends the one that was read."""
    positions: dict[str, SubscriptionPosition]
    filter: FilterBody
    pin_seconds: int
    pinned_until: str
    created: str
    updated: str
    lag: dict[str, int]
    """Entries that are not acknowledged, by pointer."""
    cursor: str | None
    """Continues after the positions; None where the pointers are too many for a cursor."""


class Acknowledgement(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`positions`, as a page of the subscription has them, or the `cursor` of any page."""

    version: str
    positions: dict[str, SubscriptionPosition] = {}
    cursor: str | None = None


class Rewind(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    version: str
    after: str
    pointers: list[str] = []
    """Only these; all, if left out."""


class SubscriptionPage(msgspec.Struct, frozen=True, kw_only=True):
    """The Changes after the positions. Posting `acknowledge` back moves the positions to the end of this page."""

    changes: tuple[Change, ...]
    ranges: dict[str, Range]
    heads: dict[str, Head]
    acknowledge: Acknowledgement
    withheld: Annotated[bool, Meta(description="You may not see everything: ranges cover more than what is shown.")] = False
