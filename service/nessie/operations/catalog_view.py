"""Resolves reference paths of a catalog to commits, and to the "effective reference" of responses."""

from __future__ import annotations

from functools import cached_property

import msgspec

from headwater.persistence.commit.draft import Draft
from headwater.persistence.log.head import load_head
from headwater.persistence.log.log_entry import LogRecord
from headwater.persistence.store import RealmKernel
from headwater.producer.catalogs.catalog_records import Catalog
from headwater.producer.history.lineage import stored_entry
from headwater.producer.pointer_names import ReferenceType, parse_reference_pointer
from headwater.producer.references.references import References
from headwater.schemas.entry_ids import EMPTY
from headwater.schemas.errors import ReferenceNotFound, ReferenceProtected
from headwater.service.nessie.reference_paths import ReferencePath


class Effective(msgspec.Struct, frozen=True):
    """What a reading is of: the reference's name and type, None without one, and the entry with the commit."""

    name: str | None
    type: ReferenceType | None
    pointer: str
    logged: LogRecord

    @property
    def hash(self) -> str:
        return self.logged.commit.hex()

    def at(self, logged: LogRecord) -> Effective:
        return Effective(self.name, self.type, self.pointer, logged)


class CatalogView:
    """One catalog of a realm, for one request."""

    def __init__(self, kernel: RealmKernel, catalog: Catalog) -> None:
        self.kernel = kernel
        self.catalog = catalog

    @cached_property
    def references(self) -> References:
        return References(self.kernel, self.catalog.id, self.catalog.default_branch)

    def name_of(self, path: ReferencePath) -> str | None:
        return self.catalog.default_branch if path.name == "-" else path.name

    def find(self, path: ReferencePath) -> Effective:
        """For reading: a commit that is named is looked up by itself, whatever the reference is at now."""
        resolved = self.references.resolve(path.spec)
        if path.name is None:
            return Effective(None, None, resolved.pointer, resolved.logged)
        if path.hash:
            found = self.references.get(path.name)
            return Effective(found.name, found.type, found.pointer, resolved.logged)
        return self._named(resolved.pointer, resolved.logged)

    def find_own(self, path: ReferencePath) -> Effective:
        """For what is merged, branched from or assigned to: a commit that is named with a reference must be one of its own."""
        return self.find(path) if path.name is None or not path.hash else self.find_in_history(path)

    def find_in_history(self, path: ReferencePath) -> Effective:
        """For writing: the commit that the writer has seen must be one of the reference's own."""
        expected = path.expected()
        if path.name is None:
            raise ReferenceNotFound("a commit without a branch takes no changes.", field="ref", remedy="Name a branch.")
        found = self.references.resolve(path.name if expected is None else f"{path.name}@{expected}")
        return self._named(found.pointer, found.logged)

    def branch_at(self, path: ReferencePath) -> Effective:
        found = self.find_in_history(path)
        if found.type is not ReferenceType.BRANCH:
            raise ReferenceProtected(f"{found.name!r} is no branch.", field="ref", remedy="Name a branch.")
        return found

    def pinned(self, entry_id: bytes) -> LogRecord:
        """The entry that a page token names."""
        if entry_id == EMPTY:
            return self.references.resolve(EMPTY.hex()).logged
        entry = stored_entry(self.kernel, entry_id)
        named = None if entry is None else parse_reference_pointer(entry.pointer)
        if named is None or named.catalog_id != self.catalog.id:
            raise ReferenceNotFound(
                "the state that was read from is gone.", field="page-token", remedy="Start again without a token."
            )
        return self.kernel.walk.verified_header(entry_id)

    def committed(self, logged: LogRecord) -> LogRecord | None:
        """The commit itself, where the entry is a reference that was made or moved there; None for the empty state."""
        if logged.commit == EMPTY:
            return None
        return logged if logged.entry_id == logged.commit else self.kernel.walk.header(logged.commit)

    def draft(self, pointer: str) -> Draft:
        """The branch as it is now, for a dry run."""
        kernel = self.kernel
        head = load_head(kernel.objects, kernel.store.backend.read_pointer(kernel.realm, pointer))
        return Draft(pointer, head, kernel.objects, kernel.store, kernel.store.clock)

    def _named(self, pointer: str, logged: LogRecord) -> Effective:
        named = parse_reference_pointer(pointer)
        if named is None:
            raise ReferenceNotFound(f"{pointer!r} is no reference.", field="ref")
        return Effective(named.name, named.type, pointer, logged)
