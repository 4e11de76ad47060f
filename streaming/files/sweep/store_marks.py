"""What every removal of files needs of the whole store: the realms that count, their fences, and the salt of fingerprints."""

from __future__ import annotations

import hashlib
from collections.abc import Collection

from headwater.persistence.backend import Backend
from headwater.persistence.clock import Clock
from headwater.persistence.realms.realm_states import RealmStatus
from headwater.persistence.store import Store
from headwater.schemas.errors import MaintenanceRefused, RealmStateConflict
from headwater.streaming.files.fingerprints import SALT_BYTES
from headwater.streaming.reachability.fence import FencedRealm, fence_realm
from headwater.streaming.runs.realm_sets import RETAIN, all_realms

FENCE_TRIES = 10
REQUEST_SECONDS = 60
"""⚠ The longest request: lease and intent must outlast it when it is sent."""


def markable_realms(store: Store, *, besides: Collection[str] = ()) -> list[str]:
    """⚠ A realm that cannot be marked stops every removal: what it needs is unknown. `besides` are those that are purged."""
    found = [realm for realm in all_realms(store) if realm.instance not in besides]
    for realm in found:
        if realm.status not in (*RETAIN, RealmStatus.CREATED, RealmStatus.PURGED):
            raise MaintenanceRefused(
                f"{realm.name!r} is {realm.status}: which files it needs is not known.",
                field="realm",
                remedy="Nothing was deleted. Finish that first.",
            )
    return [realm.instance for realm in found if realm.status in RETAIN]


def fence_patiently(backend: Backend, realm: str, clock: Clock) -> FencedRealm:
    """An object sweep may fence at the same time and overtake."""
    for attempt in range(1, FENCE_TRIES + 1):
        try:
            return fence_realm(backend, realm, clock)
        except RealmStateConflict:
            if attempt == FENCE_TRIES:
                raise
            clock.sleep(0.1 * attempt)
    raise AssertionError("unreachable")


def file_salt(store: Store) -> bytes:
    """The same for all runs of a store: one run's lists are read by the next."""
    return hashlib.blake2b(store.incarnation.encode(), digest_size=SALT_BYTES).digest()
