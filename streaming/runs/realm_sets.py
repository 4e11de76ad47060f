"""Decides by status which realms of a store are maintained and which are purged.

Retain: ACTIVE and INACTIVE, and `::system::`, which is maintained like every other realm. Purge: PURGING. Realms in neither
set (being created, filled, or purged already) are left alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from headwater.persistence.realms.realm_records import Realm
from headwater.persistence.realms.realm_states import RealmStatus
from headwater.persistence.realms.realms import Realms
from headwater.persistence.rows import SYSTEM_REALM
from headwater.persistence.store import Store
from headwater.schemas.errors import RealmStateConflict

RETAIN = frozenset({RealmStatus.ACTIVE, RealmStatus.INACTIVE})
PURGE = frozenset({RealmStatus.PURGING})


class RealmSets(msgspec.Struct, frozen=True, kw_only=True):
    retain: list[Realm]
    purge: list[Realm]


def realm_sets(store: Store) -> RealmSets:
    found = all_realms(store)
    return RealmSets(
        retain=[realm for realm in found if realm.status in RETAIN],
        purge=[realm for realm in found if realm.status in PURGE],
    )


def all_realms(store: Store) -> list[Realm]:
    return list(Realms(store).all())


def instances_to_maintain(store: Store, names: Sequence[str] = ()) -> list[str]:
    """All that may be maintained, or the named ones: `RealmNotFound`, `RealmStateConflict` if a name is not one of them."""
    if not names:
        return [SYSTEM_REALM, *(realm.instance for realm in realm_sets(store).retain)]
    return [SYSTEM_REALM if name == SYSTEM_REALM else _named(store, name, RETAIN, "maintained").instance for name in names]


def purged_by_sweeps(store: Store) -> list[str]:
    """Instances whose objects a sweep of all realms deletes as it scans, because the database cannot delete by realm."""
    return [] if store.backend.abilities.can_delete_realms else [realm.instance for realm in realm_sets(store).purge]


def realms_to_purge(store: Store, names: Sequence[str] = ()) -> list[Realm]:
    if not names:
        return realm_sets(store).purge
    return [_named(store, name, PURGE, "purged") for name in names]


def _named(store: Store, name: str, wanted: frozenset[RealmStatus], verb: str) -> Realm:
    realm = Realms(store).get(name)
    if realm.status not in wanted:
        raise RealmStateConflict(
            f"{name!r} is {realm.status} and cannot be {verb}.",
            field="realm",
            remedy=f"Only {' and '.join(sorted(wanted))} realms are {verb}.",
            realm=name,
            status=str(realm.status),
        )
    return realm
