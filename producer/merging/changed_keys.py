"""Lists the keys at which two states differ, with both contents, in key order and in pages."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import msgspec

from headwater.persistence.index import END, START, Index, IndexRoot, IndexValue, decode_key, diff
from headwater.persistence.log.log_entry import CONTENT, Content, LogRecord
from headwater.persistence.reading.state import State
from headwater.persistence.store import RealmKernel
from headwater.producer.merging.apply_changes import KeyChange

BULK_KEYS = 1_000
"""How many contents are read at once, unless the caller wants fewer."""


class ChangedKey(msgspec.Struct, frozen=True):
    """One line of a diff; None is absent."""

    key: tuple[str, ...]
    before: Content | None
    after: Content | None


def changed_keys(
    kernel: RealmKernel,
    before: LogRecord | None,
    after: LogRecord | None,
    *,
    since: bytes = START,
    until: bytes = END,
    wanted: int = BULK_KEYS,
) -> Iterator[ChangedKey]:
    """All keys in [since, until). `None` is the empty state. Values that are equal under other objects do not count. Keys are
    looked up and contents read in portions of as many as are wanted."""
    portion = min(max(wanted, 1), BULK_KEYS)
    differing = diff(_index(kernel, before), _index(kernel, after), since, until, keys_at_once=portion)
    while page := list(islice(differing, portion)):
        contents = _contents(kernel, page)
        for key, old, new in page:
            one = ChangedKey(decode_key(key), _content(contents, old), _content(contents, new))
            if one.before != one.after:
                yield one


def key_changes(kernel: RealmKernel, base: LogRecord | None, source: LogRecord | None) -> list[KeyChange]:
    return [KeyChange(one.key, one.before, one.after) for one in changed_keys(kernel, base, source)]


def _index(kernel: RealmKernel, logged: LogRecord | None) -> Index:
    return Index(lambda _: {}, IndexRoot(), {}) if logged is None else State(kernel, logged).index


def _contents(kernel: RealmKernel, page: list[tuple[bytes, IndexValue | None, IndexValue | None]]) -> dict[int, Content]:
    ids = [value.object_id for _, old, new in page for value in (old, new) if value is not None]
    return kernel.objects.fetch_many(CONTENT, ids)


def _content(contents: dict[int, Content], value: IndexValue | None) -> Content | None:
    return None if value is None else contents[value.object_id]
