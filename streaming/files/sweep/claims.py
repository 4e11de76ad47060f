"""The claim of a storage root: an object that says which store may delete files below it.

⚠ A root is swept only while its claim is, byte for byte, the one that this store wrote last. A store that was restored from a
backup, or that is a copy of another one, finds a claim that it does not remember, and deletes nothing.
"""

from __future__ import annotations

import msgspec

from headwater.persistence.store import Store
from headwater.schemas.errors import FileMissing, MaintenanceRefused
from headwater.streaming.files.kinds import FoundFile
from headwater.streaming.files.stores.storages import Storages
from headwater.streaming.files.sweep.condemned_files import OWN_FOLDER
from headwater.streaming.files.sweep.roots import Root, RootRecord, Roots

CLAIM_BYTES_MAX = 10_000


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    store: str
    """The incarnation of the store's data: a restore and a copy have another one."""
    realm: str
    catalog_id: int
    generation: int
    """One more with each run."""


class Claims:
    def __init__(self, store: Store, storages: Storages) -> None:
        self._store = store
        self._storages = storages
        self._roots = Roots(store.backend, store.clock)

    def read(self, root: Root) -> bytes:
        """Empty if there is none."""
        try:
            return self._storages.read(_location(root), CLAIM_BYTES_MAX)
        except FileMissing:
            return b""

    def claim(self, root: Root, *, force: bool = False) -> RootRecord:
        """Take a root that nobody has, or that is ours."""
        there, record = self.read(root), self._roots.get(root)
        if there and there != record.claim and not force:
            raise foreign(root, there, self._wanted(root, record.generation + 1))
        return self.renew(root, record)[0]

    def renew(self, root: Root, record: RootRecord) -> tuple[RootRecord, FoundFile]:
        """⚠ The store remembers the claim before it is written: after a crash in between the root must be claimed again, and
        nothing is deleted."""
        content = msgspec.json.encode(self._wanted(root, record.generation + 1))
        kept = self._roots.put(
            root, msgspec.structs.replace(record, location=root.location, generation=record.generation + 1, claim=content)
        )
        return kept, self._storages.of(_location(root)).write(_location(root), content)

    def require(self, root: Root, record: RootRecord) -> None:
        there = self.read(root)
        if not there:
            raise MaintenanceRefused(
                f"{root.location} is not claimed by this store.",
                field="root",
                remedy="Nothing was deleted. Run `headwater maintain files claim` if no other store has tables there.",
            )
        if there != record.claim or _store_of(there) != self._store.incarnation:
            raise foreign(root, there, self._wanted(root, record.generation))

    def _wanted(self, root: Root, generation: int) -> Claim:
        return Claim(store=self._store.incarnation, realm=root.realm, catalog_id=root.catalog_id, generation=generation)


def foreign(root: Root, there: bytes, wanted: Claim) -> MaintenanceRefused:
    return MaintenanceRefused(
        f"{root.location} is claimed by {there[:500].decode('utf-8', 'replace')}, and this store is "
        f"{msgspec.json.encode(wanted).decode()}.",
        field="root",
        remedy="Nothing was deleted. If the other store is gone for good, run `headwater maintain files claim --force`.",
        root=root.location,
    )


def _store_of(claim: bytes) -> str:
    try:
        return msgspec.json.decode(claim, type=Claim).store
    except msgspec.DecodeError:
        return ""


def _location(root: Root) -> str:
    return f"{root.location}{OWN_FOLDER}root.json"
