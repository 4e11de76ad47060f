"""A store URL enters; a realm with one catalog `lake` leaves, with short words for what tests do to it."""

from __future__ import annotations

import contextlib
import secrets
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from headwater.persistence.clock import Clock
from headwater.persistence.draft import Draft
from headwater.persistence.lane import Answer, CommitRequest
from headwater.persistence.rows import Anchor
from headwater.persistence.store import RealmKernel, Store, open_store
from headwater.producer.catalog_commit import CatalogCommit, CommitResult, commit_result
from headwater.producer.catalogs import Catalogs
from headwater.producer.commit_log import CommitLog
from headwater.producer.commit_meta import CommitMeta
from headwater.producer.content import IcebergTable, Namespace
from headwater.producer.operations import CatalogOperation, Put
from headwater.producer.pointer_names import ReferenceType, branch_pointer
from headwater.producer.reference_log import ReferenceLog
from headwater.producer.references import References
from headwater.producer.snapshots import ContentEntry, Snapshots
from headwater.schemas.change import Change, KeyPath, Kind
from headwater.schemas.errors import CommitConflict

META = CommitMeta("ada")
TAG = ReferenceType.TAG
EMBEDDED = ("memory", "sqlite")


def embedded_url(kind: str, folder: Path) -> str:
    name = secrets.token_hex(6)
    return f"memory://{name}" if kind == "memory" else f"sqlite:///{folder}/{name}.db"


class Lake:
    def __init__(self, store: Store) -> None:
        self.store = store
        self.kernel: RealmKernel = store.kernel("test#0000000000000001")
        self.catalogs = Catalogs(self.kernel)
        self.catalog = self.catalogs.ensure("lake", storage_root="file:///lake", meta=META)
        self.refs: References = self.catalogs.references(self.catalog)
        self.snapshots = Snapshots(self.kernel, self.catalog.id)
        self.log = CommitLog(self.kernel, self.catalog.id)
        self.reference_log = ReferenceLog(self.kernel, self.catalog.id)

    def commit(
        self,
        *operations: CatalogOperation,
        on: str = "main",
        request_id: str | None = None,
        expected_head: str | None = None,
        base_commit: str | None = None,
        skip_equal_puts: bool = False,
        meta: CommitMeta = META,
    ) -> CommitResult:
        request = CatalogCommit(
            self.kernel,
            operations,
            meta,
            request_id=request_id,
            expected_head=expected_head,
            base_commit=base_commit,
            skip_equal_puts=skip_equal_puts,
        )
        return commit_result(self.kernel, self.kernel.committer.commit(self.pointer(on), request))

    def together(self, branch: str, *requests: CommitRequest) -> list[Answer | Exception]:
        """The answers to requests that wait while the lane is busy, and so are applied in one batch."""
        blocker = _Blocker()
        pointer = self.pointer(branch)
        first = self.kernel.committer.submit(pointer, blocker)
        assert blocker.reached.wait(timeout=30)
        waiting = [self.kernel.committer.submit(pointer, request) for request in requests]
        blocker.go_on.set()
        first.result()
        return [future.exception() or future.result() for future in waiting]  # type: ignore[misc]

    def put(self, *key: str, on: str = "main", location: str = "s3://one") -> str:
        """Commit one table; the commit id leaves."""
        return self.commit(Put(key, IcebergTable(location)), on=on).commit_id

    def namespace(self, *key: str, on: str = "main") -> str:
        return self.commit(Put(key, Namespace()), on=on).commit_id

    def pointer(self, branch: str) -> str:
        return branch_pointer(self.catalog.id, branch)

    def keys(self, spec: str = "main", prefix: Sequence[str] = ()) -> list[KeyPath]:
        return [entry.key for entry in self.entries(spec, prefix)]

    def entries(self, spec: str = "main", prefix: Sequence[str] = (), limit: int = 7) -> list[ContentEntry]:
        """All pages, small ones."""
        at = self.refs.resolve(spec).logged
        page = self.snapshots.page(at, prefix=prefix, limit=limit)
        found = page.entries
        while page.next_token:
            page = self.snapshots.page(at, prefix=prefix, limit=limit, token=page.next_token)
            found += page.entries
        return found

    def history(self, spec: str = "main", limit: int = 7) -> list[str]:
        """Commit ids, newest first, over all pages."""
        newest = self.refs.resolve(spec).logged
        page = self.log.page(newest, limit=limit)
        found = [change.commit_id for change in page.commits]
        while page.next_token:
            page = self.log.page(newest, limit=limit, token=page.next_token)
            found += [change.commit_id for change in page.commits]
        return found

    def moves(self, limit: int = 5, kinds: set[Kind] | None = None) -> list[Change]:
        """The whole reference log, newest first."""
        page = self.reference_log.page(limit=limit, kinds=kinds)
        found = page.changes
        while page.next_token:
            page = self.reference_log.page(limit=limit, kinds=kinds, token=page.next_token)
            found += page.changes
        return found

    def raise_floor(self, pointer: str, floor: int) -> None:
        """What expiring history does to the pointer's row."""
        backend, realm = self.store.backend, self.kernel.realm
        row = backend.read_pointer(realm, pointer)
        assert row is not None
        below = self.kernel.walk.at(self.kernel.walk.load(row.head), floor - 1)
        anchor = Anchor(below.entry_id, below.entry.time)
        cut = msgspec.structs.replace(row, floor=floor, anchor=anchor, version=row.version + 1)
        assert backend.cas_pointer(realm, pointer, row.version, cut)


class _Blocker:
    """A request that holds its lane until it is let go, and does nothing."""

    request_id = "blocker"
    request_id_is_callers = False

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.go_on = threading.Event()

    def plan(self, _: Draft) -> None:
        self.reached.set()
        assert self.go_on.wait(timeout=30)


@contextlib.contextmanager
def open_lake(url: str, clock: Clock | None = None) -> Iterator[Lake]:
    with open_store(url, create=True, clock=clock) as store:
        yield Lake(store)


def kinds_and_keys(conflict: CommitConflict) -> set[tuple[str, KeyPath]]:
    details = conflict.facts["conflicts"]
    assert isinstance(details, list)
    found = set()
    for detail in details:
        assert isinstance(detail, dict) and isinstance(detail["key"], list)
        found.add((str(detail["kind"]), tuple(str(element) for element in detail["key"])))
    return found
