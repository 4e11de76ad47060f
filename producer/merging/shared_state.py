"""Computes, key by key, what one branch changed since the commits that it shares with another.

Branches that have merged each other (criss-cross) share several newest commits, none of which contains everything that both
share. So these commits are merged first, in memory and key by key, with what *they* share as base. With only one of them as the
base, a key that was merged in would count as changed, and a change that was reverted would be missed.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from headwater.persistence.index import encode_key
from headwater.persistence.log.log_entry import Content, LogRecord
from headwater.persistence.reading.state import State
from headwater.persistence.store import RealmKernel
from headwater.producer.merging.ancestry import shared_history
from headwater.producer.merging.apply_changes import KeyChange
from headwater.producer.merging.changed_keys import key_changes
from headwater.producer.merging.logged_changes import logged_changes
from headwater.schemas.change import KeyPath

UNDECIDED = Content(b"", "", {})
"""A value that no key has: the shared commits contradict each other there, so both sides must agree on the key."""


def changes_since(kernel: RealmKernel, bases: Sequence[LogRecord], source: LogRecord) -> list[KeyChange]:
    """Against the state that the bases make together; none is the empty state."""
    if len(bases) < 2:
        return _changes(kernel, bases[0] if bases else None, source)
    since_newest = {change.key: change for change in _changes(kernel, bases[0], source)}
    together = _together(kernel, bases)
    at_newest = _contents(kernel, bases[0], together.keys() - since_newest.keys())
    for key, base in together.items():
        holds = since_newest[key].source if key in since_newest else at_newest.get(key)
        since_newest[key] = KeyChange(key, base, holds)
    differing = (change for change in since_newest.values() if change.base != change.source)
    return sorted(differing, key=lambda change: encode_key(change.key))


def _changes(kernel: RealmKernel, base: LogRecord | None, source: LogRecord) -> list[KeyChange]:
    logged = logged_changes(kernel.walk, base, source)
    return key_changes(kernel, base, source) if logged is None else logged


def _together(kernel: RealmKernel, bases: Sequence[LogRecord]) -> dict[KeyPath, Content | None]:
    """Keys at which all bases together hold something else than the newest of them alone."""
    newest, *others = bases
    together: dict[KeyPath, Content | None] = {}
    for other in others:
        changes = changes_since(kernel, shared_history(kernel.walk, newest, other).bases, other)
        at_newest = _contents(kernel, newest, [change.key for change in changes])
        for change in changes:
            mine = together.get(change.key, at_newest.get(change.key))
            if mine == change.base:
                together[change.key] = change.source
            elif mine != change.source:
                together[change.key] = UNDECIDED
    return together


def _contents(kernel: RealmKernel, at: LogRecord, keys: Collection[KeyPath]) -> dict[KeyPath, Content]:
    state, encoded = State(kernel, at), {encode_key(key): key for key in keys}
    values = state.index.get_many(encoded)
    contents = state.contents(values.values())
    return {encoded[raw]: contents[value.object_id] for raw, value in values.items()}
