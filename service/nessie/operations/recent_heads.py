"""Lists the newest heads of a reference, and whether each can still be read."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from headwater.persistence.index import encode_key
from headwater.persistence.log.log_entry import LogRecord, head_before
from headwater.persistence.reading.pointer_log import PointerLog
from headwater.persistence.reading.state import State
from headwater.producer.history.lineage import Lineage
from headwater.schemas.change import Kind, Op
from headwater.schemas.entry_ids import EMPTY
from headwater.schemas.errors import CursorExpired, ObjectNotFound
from headwater.service.nessie.operations.catalog_view import CatalogView, Effective

HEADS_MAX = 50
COMMITS_SCANNED_MAX = 1_000


class Consistency(StrEnum):
    NOT_CHECKED = "NOT_CHECKED"
    CONSISTENT = "COMMIT_CONSISTENT"
    CONTENT_INCONSISTENT = "COMMIT_CONTENT_INCONSISTENT"
    INCONSISTENT = "COMMIT_INCONSISTENT"


class RecentHead(msgspec.Struct, frozen=True):
    hash: bytes
    consistency: Consistency
    logged: LogRecord | None
    """None for the empty state, or for a commit that cannot be read."""


class RecentHeads(msgspec.Struct, frozen=True):
    current: RecentHead
    previous: list[RecentHead]
    log: Consistency


def recent_heads(view: CatalogView, reference: Effective, scan_commits: int | None) -> RecentHeads:
    log = PointerLog(view.kernel, reference.pointer)
    head = log.head()
    entries = view.kernel.walk.backward(head.newest, min(HEADS_MAX, head.seq - head.row.floor + 1))
    hashes = [head_before(entry.entry) for entry in entries if entry.entry.kind is not Kind.CREATE]
    return RecentHeads(
        checked(view, head.newest.commit),
        [checked(view, hash) for hash in hashes],
        _checked_log(view, head.newest, scan_commits),
    )


def checked(view: CatalogView, hash: bytes) -> RecentHead:
    if hash == EMPTY:
        return RecentHead(hash, Consistency.CONSISTENT, None)
    try:
        logged = view.kernel.walk.load(hash)
    except ObjectNotFound:
        return RecentHead(hash, Consistency.INCONSISTENT, None)
    return RecentHead(hash, _consistency(view, logged), logged)


def _consistency(view: CatalogView, logged: LogRecord) -> Consistency:
    """By reading what the commit put, through the index of its state."""
    keys = [encode_key(op.key) for op in logged.entry.operations if op.op is not Op.DELETE]
    try:
        state = State(view.kernel, logged)
        values = state.index.get_many(keys)
        state.contents(values.values())
    except ObjectNotFound:
        return Consistency.CONTENT_INCONSISTENT
    return Consistency.CONSISTENT if len(values) == len(set(keys)) else Consistency.CONTENT_INCONSISTENT


def _checked_log(view: CatalogView, newest: LogRecord, scan_commits: int | None) -> Consistency:
    if not scan_commits:
        return Consistency.NOT_CHECKED
    left = min(scan_commits, COMMITS_SCANNED_MAX)
    try:
        for commit in Lineage(view.kernel).backward(newest):
            if not left:
                break
            left -= 1
            found = _consistency(view, commit)
            if found is not Consistency.CONSISTENT:
                return found
    except ObjectNotFound:
        return Consistency.INCONSISTENT
    except CursorExpired:
        pass  # cut on purpose
    return Consistency.CONSISTENT
