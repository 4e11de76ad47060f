"""Catalog records in the pointer `catalogs`: by name while they live, by id once they are dropped.

An id is taken from a counter in the same commit that writes the record, so no two catalogs of a realm ever share one.
"""

from __future__ import annotations

import uuid
from enum import StrEnum

import msgspec

from headwater.persistence.commit.draft import Draft, Plan
from headwater.persistence.log.committed_requests import RequestKey
from headwater.persistence.records.records import Expect, Expectation, PutRecord, Record, RecordsRequest, RecordType
from headwater.producer.commits.commit_meta import CommitMeta, check_request_id
from headwater.schemas.change import KeyPath, Kind, Value
from headwater.schemas.errors import CatalogExists

CATALOG = RecordType("CATALOG", 1)
COUNTER = RecordType("CATALOG_COUNTER", 2)
COUNTER_KEY: KeyPath = ("counter",)
LIVE: KeyPath = ("names",)
GONE: KeyPath = ("dropped",)


class CatalogStatus(StrEnum):
    CREATING = "CREATING"
    """The record is there, the default branch may not be."""
    ACTIVE = "ACTIVE"
    DROPPED = "DROPPED"


class Catalog(msgspec.Struct, frozen=True, kw_only=True):
    """A catalog as its record describes it."""

    name: str
    id: int
    """What pointer names carry; never used again in its realm."""
    status: CatalogStatus
    storage_root: str
    created_by: str
    created_at: int
    """Microseconds."""
    default_branch: str = "main"
    properties: dict[str, str] = {}
    purge_requested: bool = False
    """For a dropped catalog: its history need not be kept until its retention ends."""


class BeginCatalog:
    """Takes the name and an id. Nothing to do where the same catalog was begun and not completed."""

    kind = Kind.COMMIT
    keys_to_read: tuple[bytes, ...] = ()

    def __init__(self, catalog: Catalog, meta: CommitMeta, request_id: str | RequestKey | None = None) -> None:
        self.request_id, self.request_id_is_callers, self.fingerprint = check_request_id(request_id)
        self._catalog = catalog
        self._meta = meta
        self._content_ids = uuid.uuid4().bytes, uuid.uuid4().bytes

    def plan(self, draft: Draft) -> Plan | None:
        name = self._catalog.name
        at_name = draft.find(live_key(name))
        if at_name is not None:
            self._check_same(msgspec.convert(draft.content(at_name).value, Catalog))
            return None
        at_counter = draft.find(COUNTER_KEY)
        new_id = 1 if at_counter is None else int(draft.content(at_counter).value["next"])
        catalog = msgspec.structs.replace(self._catalog, id=new_id)
        of_counter, of_catalog = self._content_ids
        request = RecordsRequest(
            operations=[
                PutRecord(type=COUNTER, key=COUNTER_KEY, value={"next": new_id + 1}, content_id=of_counter),
                put_catalog(catalog, Expect.ABSENT, of_catalog),
            ],
            author=self._meta.author,
            message=self._meta.message or f"Create catalog {name}",
            headers=self._meta.headers,
        )
        return request.plan(draft)

    def _check_same(self, there: Catalog) -> None:
        wanted = self._catalog
        same = (there.storage_root, there.default_branch) == (wanted.storage_root, wanted.default_branch)
        if there.status is not CatalogStatus.CREATING or not same:
            raise CatalogExists(
                f"the catalog {wanted.name!r} exists already.", field="catalog", remedy="Choose another name.", id=there.id
            )


def live_key(name: str) -> KeyPath:
    return (*LIVE, name)


def gone_key(catalog_id: int) -> KeyPath:
    return (*GONE, f"{catalog_id:010d}")


def put_catalog(catalog: Catalog, expect: Expectation, content_id: bytes | None = None) -> PutRecord:
    key = gone_key(catalog.id) if catalog.status is CatalogStatus.DROPPED else live_key(catalog.name)
    value: Value = msgspec.to_builtins(catalog)
    return PutRecord(type=CATALOG, key=key, value=value, expect=expect, content_id=content_id or uuid.uuid4().bytes)


def catalog_of(record: Record) -> Catalog:
    return msgspec.convert(record.value, Catalog)
