"""Resolves reference paths of a catalog to commits, and to the "effective reference" of responses."""

from __future__ import annotations

from functools import cached_property

import msgspec

from headwater.persistence.commit.draft import Draft
from headwater.persistence.log.head import load_head
from headwater.persistence.log.log_entry import LogRecord
from headwater.persistence.store import RealmKernel
from headwater.producer.catalogs.catalog_records import Catalog
from headwater.producer.catalogs.catalog_settings import WRITE_WITHOUT_HASH, Guard, guard_of
from headwater.producer.history.lineage import stored_entry
from headwater.producer.pointer_names import ReferenceType, parse_reference_pointer
from headwater.producer.references.reference_resolution import Resolved
from headwater.producer.references.references import References
from headwater.schemas.entry_ids import EMPTY
from headwater.schemas.errors import InvalidInput, ReferenceNotFound
from headwater.service.nessie.reference_paths import ReferencePath, commit_not_found

EXPECTED = "Expected hash"


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
        self.history = kernel.store.restores.history
        """History of the store, read before anything was looked up."""

    @cached_property
    def references(self) -> References:
        return References(self.kernel, self.catalog.id, self.catalog.default_branch)

    def name_of(self, path: ReferencePath) -> str | None:
        return self.catalog.default_branch if path.name == "-" else path.name

    @property
    def hash_required(self) -> bool:
        return guard_of(self.catalog.properties, WRITE_WITHOUT_HASH) is Guard.REFUSE

    def find(self, path: ReferencePath, subject: str = EXPECTED) -> Effective:
        """For reading: a commit that is named is looked up by itself, whatever the reference is at now."""
        path.require_start(subject)
        if path.name is None:
            resolved = self.commit_of(path)
            return Effective(None, None, resolved.pointer, resolved.logged)
        if path.hash:
            found = self.references.get(path.name)
            return Effective(found.name, found.type, found.pointer, self.commit_of(path).logged)
        resolved = self.references.resolve(path.spec)
        return self._named(resolved.pointer, resolved.logged)

    def find_own(self, path: ReferencePath, subject: str) -> Effective:
        """For what is merged, branched from or assigned to: a commit of the reference, if one is named with it."""
        if self.hash_required:
            path.require_hash(subject)
        return self.find(path, subject) if path.name is None or not path.hash else self._in_history(path)

    def branch_at(self, path: ReferencePath, into: str) -> Effective:
        """For writing: a branch, and a commit of its own that the writer has seen."""
        found = self.require_branch(path, into)
        return found.at(self._in_history(path).logged) if self.names_commit(path) else found

    def names_commit(self, path: ReferencePath) -> bool:
        """Whether a writer says what it has seen. Where it need not, the newest commit is meant; steps alone never say it."""
        if self.hash_required or path.steps:
            path.require_hash(EXPECTED)
        return bool(path.hash)

    def require_branch(self, path: ReferencePath, into: str) -> Effective:
        name = self.name_of(path)
        found = None if name is None else self.references.resolve(name)
        named = None if found is None else self._named(found.pointer, found.logged)
        if named is None or named.type is not ReferenceType.BRANCH:
            raise InvalidInput(f"Reference to {into} into must be a branch.", field="ref", remedy="Name a branch.")
        return named

    def _in_history(self, path: ReferencePath) -> Effective:
        """The steps are taken first: it is the commit where they end that must be one of the reference's own."""
        commit = self.commit_of(path)
        try:
            found = self.references.resolve(f"{self.name_of(path)}@{commit.commit_id}")
        except ReferenceNotFound:
            self.references.get(path.name or "-")
            raise self.not_in_reference(commit.commit_id, path) from None
        return self._named(found.pointer, found.logged)

    def not_in_reference(self, commit_id: str, path: ReferencePath) -> ReferenceNotFound:
        self.commit_of(path)  # an unknown commit is reported as unknown
        return ReferenceNotFound(
            f"Could not find commit '{commit_id}' in reference '{self.name_of(path)}'.",
            field="hash",
            remedy="Read the reference again, or name the commit alone.",
        )

    def commit_of(self, path: ReferencePath) -> Resolved:
        """The commit that a hash and its steps lead to, whatever reference it is in."""
        if not path.is_whole:
            raise commit_not_found(path.hash)
        try:
            self.references.resolve(path.hash)
        except ReferenceNotFound:
            raise commit_not_found(path.hash) from None
        return self.references.resolve(f"{path.hash}{path.steps}")

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
        head = load_head(kernel.objects, kernel.read_pointer(pointer))
        return Draft(pointer, head, kernel.objects, kernel.store, kernel.store.clock)

    def _named(self, pointer: str, logged: LogRecord) -> Effective:
        named = parse_reference_pointer(pointer)
        if named is None:
            raise ReferenceNotFound(f"{pointer!r} is not a reference.", field="ref")
        return Effective(named.name, named.type, pointer, logged)
