"""Keeps what principals of a realm may do in memory, read again after each change.

⚠ What is remembered counts only as long as the heads of the pointers that it was read from are known and the same: an own
change is seen at once, one of another process within the store's `poll_seconds`. When heads grow old, records are read again.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from typing import Generic, NamedTuple, TypeVar

from headwater.persistence.commit.draft import Draft
from headwater.persistence.reading.head_watch import HeadWatch
from headwater.persistence.records.principal_records import GRANTS_POINTER, PRINCIPALS_POINTER, ROLES_POINTER
from headwater.persistence.records.records import head_records
from headwater.persistence.store import RealmKernel
from headwater.producer.access.effective import Held, held_in_catalog, held_in_realm, roles_of_principal
from headwater.producer.access.principals import Principal, principal_of
from headwater.producer.pointer_names import catalog_grants_pointer, catalog_roles_pointer
from headwater.schemas.errors import PointerNotFound

T = TypeVar("T")
KEPT_MAX = 10_000
ABSENT_SECONDS = 1.0
"""How long a pointer that is not there is believed not to be: what it will hold can only ever add rights."""


class RealmRole(NamedTuple):
    """Which roles count, with their ids, and what they hold over the realm."""

    roles: dict[str, str]
    held: Held


class RealmRights:
    """One per realm instance. Thread-safe. What is called `known_…` never asks the store; None says that it must be asked."""

    def __init__(self, kernel: RealmKernel, watch: HeadWatch) -> None:
        self.kernel = kernel
        self._heads = _Heads(watch)
        kernel.on_moved(self._heads.moved_here)
        self._principals: _CachedRights[Principal | None] = _CachedRights(self._heads)
        self._realm: _CachedRights[RealmRole] = _CachedRights(self._heads)
        self._catalogs: _CachedRights[Held] = _CachedRights(self._heads)

    def known_principal(self, name: str) -> tuple[Principal | None] | None:
        return self._principals.known(name, (PRINCIPALS_POINTER,))

    def principal(self, name: str) -> Principal | None:
        def read() -> Principal | None:
            record = head_records(self.kernel, PRINCIPALS_POINTER).get((name,))
            return None if record is None else principal_of(record)

        return self._principals.get(name, (PRINCIPALS_POINTER,), read)

    def known_roles(self, name: str, principal_id: str, also: tuple[str, ...]) -> RealmRole | None:
        known = self._realm.known((name, principal_id, also), (ROLES_POINTER, GRANTS_POINTER))
        return None if known is None else known[0]

    def roles(self, name: str, principal_id: str, also: tuple[str, ...]) -> RealmRole:
        def read() -> RealmRole:
            found = roles_of_principal(head_records(self.kernel, ROLES_POINTER), name, principal_id, also)
            return RealmRole(found, held_in_realm(head_records(self.kernel, GRANTS_POINTER), found))

        return self._realm.get((name, principal_id, also), (ROLES_POINTER, GRANTS_POINTER), read)

    def known_in_catalog(self, catalog_id: int, roles: dict[str, str]) -> Held | None:
        known = self._catalogs.known(_catalog_key(catalog_id, roles), _catalog_pointers(catalog_id))
        return None if known is None else known[0]

    def in_catalog(self, catalog_id: int, roles: dict[str, str]) -> Held:
        of_roles, of_grants = _catalog_pointers(catalog_id)

        def read() -> Held:
            return held_in_catalog(head_records(self.kernel, of_roles), head_records(self.kernel, of_grants), roles)

        return self._catalogs.get(_catalog_key(catalog_id, roles), (of_roles, of_grants), read)


class _Heads:
    """Which entries are the newest of pointers. Ids, not numbers: a store that was restored gives the numbers again."""

    def __init__(self, watch: HeadWatch) -> None:
        self._watch = watch
        self._absent: dict[str, float] = {}

    def moved_here(self, pointer: str, _: Draft) -> None:
        """One that this process has just made is not absent any more."""
        self._absent.pop(pointer, None)

    def are_still(self, entry_ids: Sequence[bytes], pointers: Sequence[str]) -> bool:
        """Whether these are known to be the newest. Asked several times by every request: nothing is made for it."""
        for entry_id, pointer in zip(entry_ids, pointers, strict=True):
            head = self._watch.known(pointer)
            if head is not None:
                if head.newest.entry_id != entry_id:
                    return False
            elif entry_id or time.monotonic() - self._absent.get(pointer, -ABSENT_SECONDS) >= ABSENT_SECONDS:
                return False
        return True

    def read(self, pointers: Sequence[str]) -> tuple[bytes, ...]:
        entry_ids = []
        for pointer in pointers:
            try:
                entry_ids.append(self._watch.head(pointer).newest.entry_id)
                self._absent.pop(pointer, None)
            except PointerNotFound:
                if len(self._absent) >= KEPT_MAX:
                    self._absent.clear()
                self._absent[pointer] = time.monotonic()
                entry_ids.append(b"")
        return tuple(entry_ids)


class _CachedRights(Generic[T]):
    """Values under the heads that they were read at, the least lately used first out."""

    def __init__(self, heads: _Heads) -> None:
        self._heads = heads
        self._values: OrderedDict[Hashable, tuple[tuple[bytes, ...], T]] = OrderedDict()
        self._lock = threading.Lock()

    def known(self, key: Hashable, pointers: Sequence[str]) -> tuple[T] | None:
        """In a tuple, for the value itself may be None."""
        kept = self._values.get(key)
        return (kept[1],) if kept is not None and self._heads.are_still(kept[0], pointers) else None

    def get(self, key: Hashable, pointers: Sequence[str], read: Callable[[], T]) -> T:
        known = self.known(key, pointers)
        if known is not None:
            return known[0]
        heads = self._heads.read(pointers)  # before the records: what changes in between is noticed by the ids
        value = read()
        with self._lock:
            self._values[key] = (heads, value)
            self._values.move_to_end(key)
            if len(self._values) > KEPT_MAX:
                self._values.popitem(last=False)
        return value


def _catalog_pointers(catalog_id: int) -> tuple[str, str]:
    return catalog_roles_pointer(catalog_id), catalog_grants_pointer(catalog_id)


def _catalog_key(catalog_id: int, roles: dict[str, str]) -> Hashable:
    return catalog_id, frozenset(roles.items())
