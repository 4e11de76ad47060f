"""Stores that this process has open, by URL: opened once and kept.

Spark reuses its Python workers, and a connection costs more than a task: each process opens a store once. Readers lease no
node, so nothing is left behind when a worker is killed.
"""

from __future__ import annotations

import atexit
import os
import threading
import warnings

from headwater.persistence.realms.realm_states import RealmStatus
from headwater.persistence.realms.realms import Realms
from headwater.persistence.rows import SYSTEM_REALM
from headwater.persistence.store import RealmKernel, Store, StoreOptions, WeakDurability, open_store
from headwater.schemas.errors import InvalidInput, RealmNotActive

CACHE_BYTES = 32 * 1024 * 1024
"""Small, because there are as many workers as cores, and a log is read once."""
READABLE = (RealmStatus.ACTIVE, RealmStatus.INACTIVE)

_open: dict[tuple[int, str], Store] = {}
_lock = threading.Lock()


def opened_store(url: str) -> Store:
    """Not to be closed by the caller. After a fork the child opens its own."""
    with _lock:
        place = (os.getpid(), url)
        if place not in _open:
            _open[place] = _checked_open(url)
        return _open[place]


def realm_instance(store: Store, realm: str) -> str:
    """The instance that a name means now. An instance is returned unchanged."""
    if realm == SYSTEM_REALM or "#" in realm:
        return realm
    found = Realms(store).get(realm)
    if found.status not in READABLE:
        raise RealmNotActive(
            f"{realm!r} is {found.status} and its log is not read.", field="realm", remedy="Activate it, or choose another."
        )
    return found.instance


def opened_kernel(url: str, instance: str) -> RealmKernel:
    return opened_store(url).kernel(instance)


@atexit.register
def close_stores() -> None:
    """The stores of this process; a forked child leaves its parent's alone."""
    with _lock:
        for place in [place for place in _open if place[0] == os.getpid()]:
            _open.pop(place).close()


def _checked_open(url: str) -> Store:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WeakDurability)  # reported where it is written, not by every worker that reads
        store = open_store(url, StoreOptions(cache_bytes=CACHE_BYTES))
    if not store.backend.abilities.shared_between_processes:
        store.close()
        raise InvalidInput(
            f"{store.backend.name} is seen by one process only.",
            field="store",
            remedy="Spark reads from other processes: use sqlite:///…, postgresql://… or cassandra://….",
        )
    return store
