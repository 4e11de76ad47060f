"""The claim of a storage root: an object that says which store may delete files below it.

⚠ A root is swept only while its claim is, byte for byte, the one that this store wrote last. A store that was restored from a
backup, or that is a copy of another one, finds a claim that it does not remember, and deletes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from headwater.persistence.store import Store
from headwater.producer.content.folding import fold
from headwater.schemas.errors import FileMissing, MaintenanceRefused, StorageDenied
from headwater.streaming.files.kinds import FoundFile
from headwater.streaming.files.stores.storages import Storages
from headwater.streaming.files.sweep.condemned_files import CLAIM_NAME, OWN_FOLDER
from headwater.streaming.files.sweep.roots import Root, RootRecord, Roots

CLAIM_BYTES_MAX = 10_000
_STORAGE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(?://[^/]*)?")


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    store: str
    """The incarnation of the store's data: a restored or copied store has another one."""
    realm: str
    catalog_id: int
    generation: int
    """Incremented by each run."""


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
        """Claim a root that is unclaimed, or ours already."""
        _require_open(root)
        self.require_alone(root)
        there, record = self.read(root), self._roots.get(root)
        if there and there != record.claim and not force:
            raise foreign(root, there, self._wanted(root, record.generation + 1))
        return self.renew(root, record)[0]

    def renew(self, root: Root, record: RootRecord) -> tuple[RootRecord, FoundFile]:
        """⚠ The store remembers the claim before it is written: after a crash in between, the root must be claimed again, and
        nothing is deleted."""
        content = msgspec.json.encode(self._wanted(root, record.generation + 1))
        kept = self._roots.put(
            root, msgspec.structs.replace(record, location=root.location, generation=record.generation + 1, claim=content)
        )
        return kept, self._storages.of(_location(root)).write(_location(root), content)

    def require(self, root: Root, record: RootRecord) -> None:
        _require_open(root)
        there = self.read(root)
        if not there:
            raise MaintenanceRefused(
                f"{root.location} is not claimed by this store.",
                field="root",
                remedy="Nothing was deleted. Run `headwater maintain files claim` if no other store has tables there.",
            )
        if there != record.claim or _store_of(there) != self._store.incarnation:
            raise foreign(root, there, self._wanted(root, record.generation))

    def give_up(self, root: Root) -> None:
        """Removes the claim of a root that is no longer needed."""
        if self.read(root) == self._roots.get(root).claim:
            self._storages.of(_location(root)).delete([_location(root)])

    def require_alone(self, root: Root) -> None:
        """⚠ If another store has claimed a folder around the root, its tables may be here too."""
        for around in _above(root):
            try:
                there = self.read(around)
            except StorageDenied:  # nothing that this store's credentials could have claimed
                continue
            if not self._is_foreign(around, there):
                continue
            if _store_of(there) == self._store.incarnation:
                raise _reached_twice(root, around)
            raise foreign(around, there, self._wanted(root, self._roots.get(root).generation))

    def foreign_folders(self, root: Root, claims: Iterable[str]) -> list[str]:
        """The folders below the root that another store has claimed, folded."""
        folders = (msgspec.structs.replace(root, location=claim.removesuffix(f"{OWN_FOLDER}{CLAIM_NAME}")) for claim in claims)
        return [fold(folder.location) for folder in folders if self._is_foreign(folder, self.read(folder))]

    def _is_foreign(self, folder: Root, there: bytes) -> bool:
        """⚠ Also true for a claim of this store that it never wrote at this place: then a catalog reaches the folder by another
        name, such as a mount, and metadata uses that name for its files."""
        return bool(there) and (_store_of(there) != self._store.incarnation or self._roots.get(folder).claim != there)

    def _wanted(self, root: Root, generation: int) -> Claim:
        return Claim(store=self._store.incarnation, realm=root.realm, catalog_id=root.catalog_id, generation=generation)


def require_claim(storages: Storages, root: str, claim: bytes) -> None:
    """⚠ Checks that the claim is still the one that the run wrote, byte for byte. For workers, which know the store only by its
    address."""
    if storages.read(f"{root}{OWN_FOLDER}{CLAIM_NAME}", CLAIM_BYTES_MAX) != claim:
        raise MaintenanceRefused(
            f"the claim of {root} is not the one that this run wrote.",
            field="root",
            remedy="Nothing more was deleted. Look with `headwater maintain files claim` who has it now.",
        )


def foreign(root: Root, there: bytes, wanted: Claim) -> MaintenanceRefused:
    return MaintenanceRefused(
        f"{root.location} is claimed by {there[:500].decode('utf-8', 'replace')}, and this store is "
        f"{msgspec.json.encode(wanted).decode()}.",
        field="root",
        remedy="Nothing was deleted. If the other store is gone for good, run `headwater maintain files claim --force`.",
        root=root.location,
    )


def _reached_twice(root: Root, around: Root) -> MaintenanceRefused:
    return MaintenanceRefused(
        f"{root.location} is inside {around.location}, which this store has claimed by another name, or another time.",
        field="root",
        remedy="Nothing was deleted. Name both roots by one storage; if the claim there is an old copy, delete it.",
        root=root.location,
    )


def _require_open(root: Root) -> None:
    """⚠ Also applies to a root that was claimed before."""
    if not root.takes_claim:
        raise MaintenanceRefused(
            f"a catalog at {root.location} takes no claim.",
            field="root",
            remedy="Nothing was deleted. Its property claim_root=refuse says so.",
        )


def _store_of(claim: bytes) -> str:
    try:
        return msgspec.json.decode(claim, type=Claim).store
    except msgspec.DecodeError:
        return ""


def _location(root: Root) -> str:
    return f"{root.location}{OWN_FOLDER}{CLAIM_NAME}"


def _above(root: Root) -> list[Root]:
    """The folders that contain the root, starting at its bucket or the machine's root."""
    storage = _STORAGE.match(root.location)
    head = storage[0] if storage is not None else ""
    folders = root.location.removeprefix(head).strip("/").split("/")[:-1]
    locations = [head + "/".join(["", *folders[:count], ""]) for count in range(len(folders) + 1)]
    return [msgspec.structs.replace(root, location=location) for location in locations if location != root.location]
