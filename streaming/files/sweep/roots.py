"""The storage roots of a store's catalogs, and what the store remembers of each between sweeps."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

import msgspec

from headwater.persistence.backend import Backend
from headwater.persistence.clock import Clock
from headwater.persistence.coordination.cas_rows import change_row
from headwater.persistence.objects.object_types import OBJECT_TYPES, Life, ObjectType
from headwater.persistence.rows import SYSTEM_REALM
from headwater.persistence.store import Store
from headwater.producer.catalogs.catalog_settings import CLAIM_ROOT, Guard, guard_of
from headwater.producer.catalogs.catalogs import Catalogs
from headwater.producer.content.folding import fold, storage_of
from headwater.schemas.errors import InvalidInput, OutcomeUnknown

ROOT_TYPE = "file-root"


class Root(msgspec.Struct, frozen=True, kw_only=True):
    location: str
    """As the catalog spells it, with a trailing slash: `t1` would list `t10/…` too."""
    realm: str
    catalog: str
    catalog_id: int
    takes_claim: bool = True
    """⚠ False if a catalog at this place has `claim_root=refuse`: nothing below it is ever deleted."""

    @property
    def place(self) -> str:
        return place_of(self.location)


def place_of(location: str) -> str:
    """The same for all its spellings. ⚠ Includes the storage: `s3://a/lake` and `s3://b/lake` are two places."""
    return storage_of(location) + fold(location)


def is_below(root: str, location: str) -> bool:
    """⚠ Compares the exact spelling, apart from variants of the scheme: in doubt a location is not below the root."""
    storage, path = _parts(location)
    root_storage, root_path = _parts(root)
    segments = path.split("/")
    return (
        storage == root_storage
        and path.startswith(root_path.rstrip("/") + "/")
        and not any(part in ("", ".", "..") for part in segments[1:])
    )


def _parts(location: str) -> tuple[str, str]:
    """Storage and path, which begins with a slash."""
    if location.startswith(("/", "file:/")):
        return "file", "/" + location.removeprefix("file:").lstrip("/")
    _, slash, path = location.partition("://")[2].partition("/")
    return storage_of(location), slash + path


class RootRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The row's payload. New fields need a default."""

    location: str
    generation: int = 0
    """Generation of the claim that this store wrote last; 0 for a root that was never claimed."""
    claim: bytes = b""
    """That claim, byte for byte."""
    live_files: int = 0
    """What the last run counted; sizes the next Bloom filter."""
    share: float = 0.0
    """The share of the old files that the last run deleted or would have deleted."""
    condemned: str = ""
    """The list of an earlier complete run, its digest and the storage's time of that run."""
    condemned_digest: str = ""
    condemned_time: int = 0


OBJECT_TYPES.register(ObjectType(ROOT_TYPE, RootRecord, Life.MUTABLE))


class Roots:
    """What the store remembers about its roots."""

    def __init__(self, backend: Backend, clock: Clock) -> None:
        self._backend = backend
        self._clock = clock

    def get(self, root: Root) -> RootRecord:
        row = self._backend.read_mutable(SYSTEM_REALM, ROOT_TYPE, _key(root))
        if row is None:
            return RootRecord(location=root.location)
        return msgspec.msgpack.decode(row.payload, type=RootRecord)

    def put(self, root: Root, record: RootRecord) -> RootRecord:
        payload = msgspec.msgpack.encode(record)
        if not change_row(self._backend, SYSTEM_REALM, ROOT_TYPE, _key(root), lambda _: payload, self._clock):
            raise OutcomeUnknown(f"what is known of {root.location} could not be written.", remedy="Try again.")
        return record


def roots_of(store: Store, realms: Iterable[str]) -> list[Root]:
    """The roots of all live catalogs of these realm instances. Several catalogs may share one."""
    found: list[Root] = []
    for realm in realms:
        for catalog in Catalogs(store.kernel(realm)).list():
            if catalog.storage_root:
                location = catalog.storage_root.rstrip("/") + "/"
                takes_claim = guard_of(catalog.properties, CLAIM_ROOT) is Guard.ALLOW
                found.append(
                    Root(location=location, realm=realm, catalog=catalog.name, catalog_id=catalog.id, takes_claim=takes_claim)
                )
    closed = {root.place for root in found if not root.takes_claim}
    return [msgspec.structs.replace(root, takes_claim=root.place not in closed) for root in found]


def closed_inside(roots: Sequence[Root], root: Root) -> list[str]:
    """Folders below a root whose catalogs take no claim, folded."""
    inner = (one for one in roots if not one.takes_claim and one.place != root.place and one.place.startswith(root.place))
    return [fold(one.location) for one in inner]


def chosen(roots: Sequence[Root], names: Sequence[str]) -> list[Root]:
    """Each place once. ⚠ This narrows what is listed and deleted, never what counts as in use."""
    by_place: dict[str, Root] = {}
    for root in roots:
        by_place.setdefault(root.place, root)
    for name in names:
        if place_of(name.rstrip("/") + "/") not in by_place:
            raise InvalidInput(
                f"{name[:200]!r} is not a storage root of a catalog.",
                field="--root",
                remedy=f"Use one of: {', '.join(sorted(root.location for root in roots)[:10]) or 'there is none'}.",
            )
    return [by_place[place_of(name.rstrip("/") + "/")] for name in names] if names else list(by_place.values())


def _key(root: Root) -> str:
    return hashlib.sha256(root.place.encode("utf-8", "surrogatepass")).hexdigest()
