"""What tests of realms share: cheap secrets, a record to write and read, the stores of one process, a backend that pauses."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from headwater.persistence.backend import Backend
from headwater.persistence.backends import open_backend
from headwater.persistence.clock import Clock, SystemClock
from headwater.persistence.realms.realms import Realms
from headwater.persistence.records.records import PutRecord, RecordsRequest, RecordType, head_records
from headwater.persistence.records.secret_hashes import ScryptCost
from headwater.persistence.store import RealmKernel, Store, StoreOptions

CHEAP = ScryptCost(n=2, r=1, p=1)
"""Hashing is not what these tests are about."""
NOTE = RecordType("NOTE", 9)
WAIT_SECONDS = 30


def realms_of(store: Store) -> Realms:
    return Realms(store, secret_cost=CHEAP)


def write_note(kernel: RealmKernel, pointer: str, key: str, text: str = "") -> None:
    put = PutRecord(type=NOTE, key=(key,), value={"text": text})
    kernel.committer.commit(pointer, RecordsRequest(operations=[put], author="test", message=key))


def notes(kernel: RealmKernel, pointer: str) -> dict[str, str]:
    found = head_records(kernel, pointer).all()
    return {record.key[0]: record.value["text"] for record in found if record.type == NOTE.name}


def store_over(url: str, wrap: Callable[[Any], Any] = lambda backend: backend, clock: Clock | None = None) -> Store:
    """Another process's view of a store, as far as one process can have it: its own connections, cache and lanes."""
    return Store(wrap(open_backend(url)), StoreOptions(), clock or SystemClock())


class PausingBackend:
    """Stops its caller right before the chosen call, once, until it is told to continue."""

    def __init__(self, inner: Any, method: str, pointer: str | None = None) -> None:
        self._inner = inner
        self._method = method
        self._pointer = pointer
        self.armed = False
        self.paused = threading.Event()
        self.go_on = threading.Event()

    def commit(self, realm: str, name: str, expected: Any, row: Any, objects: Any, *, of: str = "") -> bool:
        """In two steps, as a database without transactions does it: the pause comes between objects and pointer."""
        self._inner.write_objects(realm, objects)
        self._pause("commit", name)
        return bool(self._inner.cas_pointer(realm, name, expected, row))

    def __getattr__(self, attribute: str) -> Any:
        if attribute in ("name_pages", "all_names", "pointer_pages", "all_pointers"):
            return partial(getattr(Backend, attribute), self)  # they call `list_names`, which may be the one that pauses
        found = getattr(self._inner, attribute)
        if attribute != self._method:
            return found

        def paused(realm: str, *arguments: Any, **named: Any) -> Any:
            self._pause(attribute, str(arguments[0]) if arguments else "")
            return found(realm, *arguments, **named)

        return paused

    def _pause(self, method: str, pointer: str) -> None:
        if self.armed and method == self._method and self._pointer in (None, pointer):
            self.armed = False
            self.paused.set()
            assert self.go_on.wait(WAIT_SECONDS), "nobody told the paused call to continue"
