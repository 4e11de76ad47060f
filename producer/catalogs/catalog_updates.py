"""Creates, updates and drops catalogs, each once per request id. Only an empty catalog is dropped."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from headwater.persistence.commit.commit_outcome import CommitOutcome
from headwater.persistence.log.log_entry import LogRecord
from headwater.persistence.reading.request_lookup import find_request
from headwater.persistence.records.records import Unchanged
from headwater.persistence.store import RealmKernel
from headwater.producer.access.writing import WriteMeta, Written, commit_records, outcome_of
from headwater.producer.catalogs.catalog_records import Catalog, CatalogStatus, put_catalog
from headwater.producer.catalogs.catalog_settings import check_settings
from headwater.producer.catalogs.catalogs import STORAGE_ROOT_BYTES_MAX, CatalogRead, Catalogs
from headwater.producer.catalogs.storage_claims import claim_storage_root
from headwater.producer.commits.commit_meta import CommitMeta
from headwater.producer.content.content_types import Namespace, to_value
from headwater.producer.content.snapshots import Snapshots
from headwater.producer.json_safety import check_text
from headwater.producer.pointer_names import CATALOGS
from headwater.producer.random_ids import random_bytes
from headwater.schemas.change import KeyPath
from headwater.schemas.errors import CatalogNotEmpty, RecordChanged


def create_catalog(
    kernel: RealmKernel,
    name: str,
    *,
    storage_root: str = "",
    default_branch: str = "main",
    properties: dict[str, str] | None = None,
    meta: WriteMeta,
) -> Written[CatalogRead]:
    """Asked for again under the same request id, it is the same catalog, completed if a crash has left it incomplete."""
    meta, catalogs = _with_id(meta), Catalogs(kernel)
    before = find_request(kernel, CATALOGS, meta.request_id)
    if before is None:
        catalogs.create(
            name,
            storage_root=storage_root,
            default_branch=default_branch,
            properties=properties,
            meta=_commit_meta(meta),
            request_id=meta.request_id,
        )
    read = catalogs.finish_create(name, meta=_commit_meta(meta))
    logged = before or find_request(kernel, CATALOGS, meta.request_id)
    return Written(value=read, outcome=outcome_of(CATALOGS, logged, replayed=before is not None))


def update_catalog(
    kernel: RealmKernel,
    name: str,
    *,
    storage_root: str | None = None,
    properties: dict[str, str] | None = None,
    version: str | None = None,
    meta: WriteMeta,
) -> Written[CatalogRead]:
    """What is left out stays. ⚠ The storage root of a catalog that holds something stays: its tables lie there."""
    meta, catalogs = _with_id(meta), Catalogs(kernel)
    read = catalogs.read(name)
    before = find_request(kernel, CATALOGS, meta.request_id)
    if before is not None:
        return Written(value=read, outcome=outcome_of(CATALOGS, before, replayed=True))
    _check_version(read, version)
    catalog = read.catalog
    if storage_root is not None and storage_root != catalog.storage_root:
        check_text(storage_root, "storage_root", STORAGE_ROOT_BYTES_MAX)
        _require_empty(kernel, catalog, "storage_root")
        claim_storage_root(kernel, storage_root)
        catalog = msgspec.structs.replace(catalog, storage_root=storage_root)
    if properties is not None:
        to_value(Namespace(properties), "properties")  # text to text, of a bounded size
        check_settings(properties)
        catalog = msgspec.structs.replace(catalog, properties=properties)
    put = put_catalog(catalog, Unchanged(read.object_id))
    outcome = commit_records(kernel, CATALOGS, [put], meta, f"Update catalog {name}")
    if catalog.storage_root != read.catalog.storage_root:
        catalogs.root_is_new(catalog)
    return Written(value=catalogs.read(name), outcome=outcome)


def drop_catalog(
    kernel: RealmKernel,
    name: str,
    *,
    require_empty: bool = True,
    purge: bool = False,
    version: str | None = None,
    meta: WriteMeta,
) -> CommitOutcome:
    """Marks only, and frees the name; maintenance removes the data. What is committed while it is dropped goes with it."""
    meta, catalogs = _with_id(meta), Catalogs(kernel)
    before = find_request(kernel, CATALOGS, meta.request_id)
    if before is not None:
        for dropped in _dropped_by(before):
            catalogs.finish_drop(dropped, meta=_commit_meta(meta))
        return outcome_of(CATALOGS, before, replayed=True)
    read = catalogs.read(name)
    _check_version(read, version)
    if require_empty:
        _require_empty(kernel, read.catalog, "catalog")
    catalogs.drop(name, purge=purge, meta=_commit_meta(meta), request_id=meta.request_id)
    return outcome_of(CATALOGS, find_request(kernel, CATALOGS, meta.request_id), replayed=False)


def first_content(kernel: RealmKernel, catalog: Catalog) -> tuple[str, KeyPath] | None:
    """A reference and a key of it that holds something; None for an empty catalog."""
    references = Catalogs(kernel).references(catalog)
    for reference in references.all():
        at = references.resolve(reference.name, type=reference.type).logged
        page = Snapshots(kernel, catalog.id).page(at, limit=1)
        if page.entries:
            return reference.name, page.entries[0].key
    return None


def _require_empty(kernel: RealmKernel, catalog: Catalog, field: str) -> None:
    found = first_content(kernel, catalog)
    if found is not None:
        reference, key = found
        raise CatalogNotEmpty(
            f"the catalog {catalog.name!r} holds {'.'.join(key)!r} at {reference!r}.",
            field=field,
            remedy="Delete what is inside first.",
            reference=reference,
            key=list(key),
        )


def _check_version(read: CatalogRead, version: str | None) -> None:
    if version is not None and version != read.version:
        raise RecordChanged(
            f"{read.catalog.name!r} was changed by another writer in the meantime.",
            field="version",
            remedy="Read it again and retry.",
        )


def _dropped_by(logged: LogRecord) -> Iterator[Catalog]:
    for operation in logged.entry.operations:
        if operation.after is not None and operation.after.get("status") == CatalogStatus.DROPPED:
            yield msgspec.convert(operation.after, Catalog)


def _with_id(meta: WriteMeta) -> WriteMeta:
    """By which the entry is found again when it is there."""
    return meta if meta.request_id is not None else msgspec.structs.replace(meta, request_id=random_bytes(16).hex())


def _commit_meta(meta: WriteMeta) -> CommitMeta:
    return CommitMeta(meta.author, meta.message, meta.headers)
