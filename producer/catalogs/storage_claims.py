"""Which realm a storage root belongs to: one row of `::system::` for each root that a realm has used.

⚠ A realm must not place a catalog at, above or below the root of another realm: the server reads and writes there with its own
rights. A claim is written first and then compared with all others, so of two realms that claim at once at most one gets it.
A claim lives as long as its realm instance.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from hashlib import sha256

import msgspec

from headwater.persistence.coordination.cas_rows import cas_row, delete_row, next_row
from headwater.persistence.objects.object_types import OBJECT_TYPES, Life, ObjectType
from headwater.persistence.realms.realms import Realms
from headwater.persistence.rows import SYSTEM_REALM, MutableRow
from headwater.persistence.store import RealmKernel
from headwater.schemas.errors import LocationForbidden

CLAIM_TYPE = "storage-root"
_SCHEMES = {"s3a": "s3", "s3n": "s3", "abfss": "abfs", "wasb": "abfs", "wasbs": "abfs"}


class StorageClaim(msgspec.Struct, frozen=True, array_like=True):
    """The row's payload. Append new fields, never move one."""

    instance: str
    root: str


OBJECT_TYPES.register(ObjectType(CLAIM_TYPE, StorageClaim, Life.MUTABLE))


def claim_storage_root(kernel: RealmKernel, root: str) -> None:
    """`LocationForbidden` if another realm has this place, or one above or below it. No root needs no claim."""
    if not root:
        return
    mine = StorageClaim(kernel.realm, _spelled(root))
    key = sha256(msgspec.msgpack.encode(mine)).hexdigest()
    backend, clock = kernel.store.backend, kernel.store.clock
    row = backend.read_mutable(SYSTEM_REALM, CLAIM_TYPE, key)
    if row is None:
        row = next_row(CLAIM_TYPE, key, None, msgspec.msgpack.encode(mine), clock.now_micros())
        cas_row(backend, SYSTEM_REALM, None, row, clock)
    if any(_overlap(mine, other) for other in _others(kernel)):
        delete_row(backend, SYSTEM_REALM, row, clock)
        raise LocationForbidden(
            f"{root[:200]!r} belongs to another realm.", field="storage_root", remedy="Choose a place that no other realm uses."
        )


def require_outside_of_warehouses(kernel: RealmKernel, root: str) -> None:
    """`LocationForbidden` for a root of a source that reaches into another realm's storage, whose files would be read with the
    server's rights, or that lies within the realm's own: what is swept there is no source's."""
    wanted = StorageClaim(kernel.realm, _spelled(root))
    if any(_overlap(wanted, claim) for claim in _others(kernel)):
        raise LocationForbidden(
            f"{root[:200]!r} reaches into the storage of another realm.", field="roots", remedy="Declare a smaller root."
        )
    own = (claim for claim in _claims(kernel) if claim.instance == kernel.realm)
    if any(wanted.root.startswith(claim.root) for claim in own):
        raise LocationForbidden(
            f"{root[:200]!r} is within the storage of a catalog here, where unused files are deleted.",
            field="roots",
            remedy="Keep a source's files outside of it.",
        )


def claimed_roots(kernel: RealmKernel) -> frozenset[str]:
    """The storage roots of all catalogs of all realms, each with a slash at its end."""
    living = {kernel.realm, *_living(kernel)}
    return frozenset(claim.root for claim in _claims(kernel) if claim.instance in living)


def is_claimed(roots: Collection[str], location: str) -> bool:
    """Whether it lies below one of them."""
    place = _spelled(location)
    return any(place.startswith(root) for root in roots)


def _others(kernel: RealmKernel) -> Iterator[StorageClaim]:
    """Claims of other realms that are there; those of purged realms count no longer."""
    living = set(_living(kernel))
    for claim in _claims(kernel):
        if claim.instance != kernel.realm and claim.instance in living:
            yield claim


def _living(kernel: RealmKernel) -> Iterator[str]:
    return (realm.instance for realm in Realms(kernel.store).all())


def _claims(kernel: RealmKernel) -> Iterator[StorageClaim]:
    return map(_claim_of, kernel.store.backend.all_mutable(SYSTEM_REALM, CLAIM_TYPE))


def _claim_of(row: MutableRow) -> StorageClaim:
    claim = msgspec.msgpack.decode(row.payload, type=StorageClaim)
    return StorageClaim(claim.instance, _spelled(claim.root))


def _overlap(one: StorageClaim, other: StorageClaim) -> bool:
    return one.root.startswith(other.root) or other.root.startswith(one.root)


def _spelled(root: str) -> str:
    """One spelling for one place: scheme and slashes; ends with a slash, so that `/a` is not above `/ab`."""
    scheme, colon, path = root.partition(":") if not root.startswith("/") else ("file", ":", root)
    scheme = _SCHEMES.get(scheme.lower(), scheme.lower())
    return f"{scheme}{colon}{re.sub('/+', '/', path).rstrip('/')}/"
