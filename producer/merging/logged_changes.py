"""Reads from a branch's own entries what it has changed since a commit, where these are few.

A branch that was made for a job has a commit or two: its entries say what they changed, with the contents. Comparing the two
states would look up every key of the part of the index that one of them does not share.
"""

from __future__ import annotations

from collections.abc import Sequence

from headwater.persistence.index import encode_key
from headwater.persistence.log.log_entry import Content, LogRecord, StoredOperation, head_before
from headwater.persistence.log.log_walk import LogWalk
from headwater.producer.merging.apply_changes import KeyChange
from headwater.schemas.change import COMMITTING_KINDS, KeyPath
from headwater.schemas.entry_ids import EMPTY
from headwater.schemas.errors import ObjectNotFound

ENTRIES_MAX = 16
OPERATIONS_MAX = 256


def logged_changes(walk: LogWalk, base: LogRecord | None, source: LogRecord) -> list[KeyChange] | None:
    """In key order; None where the base is not a few entries before the source. `None` as base is the empty state."""
    began = EMPTY if base is None else base.commit
    entries: list[Sequence[StoredOperation]] = []
    try:
        for logged in walk.backward(source, ENTRIES_MAX):
            if logged.entry.kind not in COMMITTING_KINDS:  # it moves the branch to a state that it does not describe
                return None
            entries.append(logged.entry.operations)
            if sum(map(len, entries)) > OPERATIONS_MAX:
                return None
            if head_before(logged.entry) == began:
                return _joined(entries[::-1])
    except ObjectNotFound:
        return None
    return None


def changes_of(operations: Sequence[StoredOperation]) -> list[KeyChange]:
    """Of one entry: one for each key, also where it ends one content and puts another one in its place."""
    before: dict[KeyPath, Content] = {}
    after: dict[KeyPath, Content] = {}
    for op in operations:
        if op.before is not None:
            before[op.key if op.from_key is None else op.from_key] = Content(op.content_id, op.type, op.before)
        if op.after is not None:
            after[op.key] = Content(op.content_id, op.type, op.after)
    return [KeyChange(key, before.get(key), after.get(key)) for key in dict.fromkeys((*before, *after))]


def _joined(entries: Sequence[Sequence[StoredOperation]]) -> list[KeyChange]:
    """Oldest first."""
    joined: dict[KeyPath, KeyChange] = {}
    for operations in entries:
        for change in changes_of(operations):
            known = joined.get(change.key)
            joined[change.key] = change if known is None else KeyChange(change.key, known.base, change.source)
    differing = (change for change in joined.values() if change.base != change.source)
    return sorted(differing, key=lambda change: encode_key(change.key))
