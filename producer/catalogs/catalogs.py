"""The catalogs of one realm: created with their default branch, looked up, listed, dropped.

The record comes first and says CREATING until the default branch is there: a second call to create it after a crash
completes it. Dropping frees the name at once and marks the id as DROPPED; its pointers stay until they are purged.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

import msgspec

from headwater.persistence.log.committed_requests import RequestKey
from headwater.persistence.records.records import DeleteRecord, Expect, RecordOperation, RecordsRequest, Unchanged, head_records
from headwater.persistence.store import RealmKernel
from headwater.producer.catalogs.catalog_records import (
    GONE,
    LIVE,
    BeginCatalog,
    Catalog,
    CatalogStatus,
    catalog_of,
    live_key,
    put_catalog,
)
from headwater.producer.catalogs.catalog_settings import check_settings
from headwater.producer.catalogs.storage_claims import claim_storage_root
from headwater.producer.commits.commit_meta import CommitMeta, check_meta, check_request_id
from headwater.producer.commits.owned_paths import require_droppable
from headwater.producer.content.content_types import Namespace, to_value
from headwater.producer.history.lineage import empty_state
from headwater.producer.json_safety import check_text
from headwater.producer.pointer_names import (
    CATALOGS,
    branch_pointer,
    catalog_prefix,
    check_catalog_name,
    check_reference_name,
)
from headwater.producer.references.reference_moves import CreateReference, DeleteReference
from headwater.producer.references.references import References
from headwater.schemas.errors import (
    CatalogExists,
    CatalogNotFound,
    RecordChanged,
    RecordNotFound,
    ReferenceExists,
    ReferenceNotFound,
)

STORAGE_ROOT_BYTES_MAX = 8_192


class CatalogRead(msgspec.Struct, frozen=True):
    """A catalog, and the object id by which the next write of its record knows that nothing has changed."""

    catalog: Catalog
    object_id: int

    @property
    def version(self) -> str:
        return f"{self.object_id:x}"


class Catalogs:
    """The catalogs of one realm instance. Nothing is remembered between calls."""

    def __init__(self, kernel: RealmKernel) -> None:
        self._kernel = kernel

    # ── reading ─────────────────────────────────────────────────────────────────────────────────────────────

    def get(self, name: str) -> Catalog:
        """`CatalogNotFound` also for one that is still being created."""
        return self.read(name).catalog

    def read(self, name: str) -> CatalogRead:
        found = self._find(name)
        if found is None or found.catalog.status is not CatalogStatus.ACTIVE:
            raise self._not_found(name)
        return found

    def list(self) -> list[Catalog]:
        """All of them, in order of name."""
        return [read.catalog for read in self.read_all()]

    def read_all(self, *, after: str = "") -> Iterator[CatalogRead]:
        """Those after `after`, in order of name and of one moment."""
        behind = live_key(check_catalog_name(after)) if after else None
        for record in head_records(self._kernel, CATALOGS).all(LIVE, after=behind):
            yield CatalogRead(catalog_of(record), record.object_id)

    def dropped(self) -> Sequence[Catalog]:
        """The catalogs that wait to be purged."""
        return [catalog_of(record) for record in head_records(self._kernel, CATALOGS).all(GONE)]

    def references(self, catalog: Catalog) -> References:
        return References(self._kernel, catalog.id, catalog.default_branch)

    # ── creating ────────────────────────────────────────────────────────────────────────────────────────────

    def create(
        self,
        name: str,
        *,
        storage_root: str = "",
        default_branch: str = "main",
        properties: dict[str, str] | None = None,
        meta: CommitMeta,
        request_id: str | RequestKey | None = None,
    ) -> Catalog:
        """`CatalogExists` if it is there and complete. One that a crash left incomplete is completed, as it was begun."""
        check_catalog_name(name)
        check_reference_name(default_branch, "default_branch")
        check_text(storage_root, "storage_root", STORAGE_ROOT_BYTES_MAX)
        to_value(Namespace(properties or {}), "properties")  # text to text, of a bounded size
        check_settings(properties or {})
        claim_storage_root(self._kernel, storage_root)
        wanted = Catalog(
            name=name,
            id=0,
            status=CatalogStatus.CREATING,
            storage_root=storage_root,
            created_by=check_meta(meta).author,
            created_at=self._kernel.store.clock.now_micros(),
            default_branch=default_branch,
            properties=properties or {},
        )
        self._kernel.committer.commit(CATALOGS, BeginCatalog(wanted, meta, request_id))
        catalog = self.finish_create(name, meta=meta).catalog
        self.root_is_new(catalog)
        return catalog

    def root_is_new(self, catalog: Catalog) -> None:
        """Lets a process that reaches file storage claim it."""
        if catalog.storage_root and self._kernel.store.on_new_root is not None:
            self._kernel.store.on_new_root(self._kernel.realm, catalog.name)

    def finish_create(self, name: str, *, meta: CommitMeta) -> CatalogRead:
        """Of one that was begun; nothing to do where it is complete."""
        found = self._find(name)
        if found is None:
            raise self._not_found(name)
        if found.catalog.status is CatalogStatus.CREATING:
            self._complete(found, meta)
        return self.read(name)

    def ensure(self, name: str, *, storage_root: str = "", meta: CommitMeta) -> Catalog:
        """The catalog, created if it is not there."""
        try:
            return self.create(name, storage_root=storage_root, meta=meta)
        except CatalogExists:
            return self.get(name)

    def _complete(self, found: CatalogRead, meta: CommitMeta) -> Catalog:
        catalog = found.catalog
        pointer = branch_pointer(catalog.id, catalog.default_branch)
        opening = CommitMeta(meta.author, f"Create catalog {catalog.name}", meta.headers)
        with contextlib.suppress(ReferenceExists):  # an earlier try, or another process, has come this far
            self._kernel.committer.commit(pointer, CreateReference(self._kernel, empty_state(pointer), opening))
        active = msgspec.structs.replace(catalog, status=CatalogStatus.ACTIVE)
        try:
            self._write([put_catalog(active, Unchanged(found.object_id))], meta, f"Open catalog {catalog.name}")
        except (RecordChanged, RecordNotFound):
            now = self._find(catalog.name)
            if now is None or now.catalog != active:
                raise self._not_found(catalog.name) from None
        return active

    # ── dropping ────────────────────────────────────────────────────────────────────────────────────────────

    def drop(self, name: str, *, purge: bool = False, meta: CommitMeta, request_id: str | RequestKey | None = None) -> Catalog:
        """Marks only. Every pointer of the catalog gets its delete entry, so that no commit lands any more and every reader
        learns of it. After a crash in between, `finish_drop` continues."""
        found = self._find(name)
        if found is None:
            raise self._not_found(name)
        require_droppable(self._kernel, found.catalog.id)
        dropped = msgspec.structs.replace(found.catalog, status=CatalogStatus.DROPPED, purge_requested=purge)
        move: Sequence[RecordOperation] = [
            DeleteRecord(key=live_key(name), expect=Unchanged(found.object_id)),
            put_catalog(dropped, Expect.ABSENT),
        ]
        try:
            self._write(move, check_meta(meta), f"Drop catalog {name}", request_id)
        except (RecordChanged, RecordNotFound):
            raise self._not_found(name) from None
        self.finish_drop(dropped, meta=meta)
        return dropped

    def finish_drop(self, catalog: Catalog, *, meta: CommitMeta) -> int:
        """Delete the branches, tags, roles and grants that a dropped catalog still has; how many pointers there were."""
        pointers = self._kernel.store.backend.all_names(self._kernel.realm, prefix=catalog_prefix(catalog.id))
        return sum(self._delete(pointer, CommitMeta(meta.author, f"Drop catalog {catalog.name}")) for pointer in pointers)

    def _delete(self, pointer: str, meta: CommitMeta) -> bool:
        try:
            self._kernel.committer.commit(pointer, DeleteReference(meta))
        except ReferenceNotFound:
            return False
        return True

    # ── records ─────────────────────────────────────────────────────────────────────────────────────────────

    def _find(self, name: str) -> CatalogRead | None:
        record = head_records(self._kernel, CATALOGS).get(live_key(check_catalog_name(name)))
        return None if record is None else CatalogRead(catalog_of(record), record.object_id)

    def _write(
        self, operations: Sequence[RecordOperation], meta: CommitMeta, message: str, request_id: str | RequestKey | None = None
    ) -> None:
        id, is_callers, fingerprint = check_request_id(request_id)
        request = RecordsRequest(
            operations=operations,
            author=meta.author,
            message=meta.message or message,
            headers=meta.headers,
            request_id=id,
            request_id_is_callers=is_callers,
            fingerprint=fingerprint,
        )
        self._kernel.committer.commit(CATALOGS, request)

    def _not_found(self, name: str) -> CatalogNotFound:
        return CatalogNotFound(
            f"there is no catalog {name!r} in realm {self._kernel.realm_name!r}.",
            field="catalog",
            remedy="List the catalogs, or create it.",
        )
