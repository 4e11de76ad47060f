"""Counts the objects and bytes that work on a kernel reads from the store, and the entries that it hashes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from headwater.persistence.commit import draft
from headwater.persistence.log import log_walk
from headwater.persistence.log.log_entry import Entry, id_of
from headwater.persistence.store import RealmKernel


class Work:
    """What was done, by kind."""

    def __init__(self) -> None:
        self.objects_read = 0
        self.bytes_read = 0
        self.hashes = 0
        self.operations_hashed = 0

    def __repr__(self) -> str:
        return f"{vars(self)}"


@contextmanager
def counted_work(kernel: RealmKernel, patch: pytest.MonkeyPatch, *, cold: bool = True) -> Iterator[Work]:
    """`cold` begins with an empty cache, so that every object that is looked at is read."""
    work, objects = Work(), kernel.objects

    def counting(entry: Entry, object_id: int) -> bytes:
        work.hashes += 1
        work.operations_hashed += len(entry.operations)
        return id_of(entry, object_id)

    if cold:
        kernel.store.cache.clear()
    objects_before, bytes_before = objects.objects_read, objects.bytes_read
    with patch.context() as patched:
        patched.setattr(log_walk, "id_of", counting)
        patched.setattr(draft, "id_of", counting)
        yield work
    work.objects_read += objects.objects_read - objects_before
    work.bytes_read += objects.bytes_read - bytes_before
