"""`headwater.open`: the embedded engine: realm → catalog → branch, with commits, changes, snapshots and merges."""

from __future__ import annotations

import functools
import getpass
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Unpack

from headwater.commit_options import CommitOptions
from headwater.consumers.clients.local_feed import LocalFeed
from headwater.persistence.clock import Clock
from headwater.persistence.commit.draft import Draft
from headwater.persistence.commit.observer import Observer
from headwater.persistence.log.head import load_head
from headwater.persistence.log.log_entry import change_of
from headwater.persistence.reading.head_watch import HeadWatch
from headwater.persistence.realms.realms import InitializedRealm, Realms
from headwater.persistence.store import RealmKernel, Store, StoreOptions, open_store
from headwater.producer.catalogs.catalogs import Catalogs
from headwater.producer.commits.catalog_commit import CatalogCommit, CommitResult, commit_result
from headwater.producer.commits.commit_meta import CommitMeta
from headwater.producer.commits.operations import CatalogOperation
from headwater.producer.content.snapshots import Snapshots
from headwater.producer.history.lineage import Lineage
from headwater.producer.merging.apply_changes import MergeRules
from headwater.producer.merging.changed_keys import ChangedKey, changed_keys
from headwater.producer.merging.merge import MergePreview, MergeRequest, commit_merge
from headwater.producer.merging.transplant import TransplantRequest
from headwater.producer.pointer_names import ReferenceType
from headwater.producer.references.references import Reference, ReferencePage
from headwater.schemas.change import Change
from headwater.schemas.cursor import Position
from headwater.schemas.entry_ids import parse_id
from headwater.schemas.errors import RealmExists
from headwater.schemas.filters import NO_FILTER, Filter
from headwater.snapshot import Snapshot

FOLLOW_SECONDS = 1.0
"""How long a follower waits before it looks whether it shall still wait."""


def open_embedded(
    url: str,
    *,
    create: bool = False,
    options: StoreOptions | None = None,
    clock: Clock | None = None,
    observers: Sequence[Observer] = (),
) -> Headwater:
    """The engine in this process, on a store that is there or, with `create`, made now."""
    return Headwater(open_store(url, options, create=create, clock=clock, observers=observers))


class Headwater:
    def __init__(self, store: Store) -> None:
        self.store = store
        self.realms = Realms(store)
        self._watches: dict[str, HeadWatch] = {}

    def realm(self, name: str = "default") -> RealmHandle:
        """A realm that is ACTIVE."""
        kernel = self.realms.require_active(name)
        if kernel.realm not in self._watches:
            self._watches[kernel.realm] = HeadWatch(kernel)
        return RealmHandle(kernel, self._watches[kernel.realm])

    def create_realm(self, name: str = "default") -> InitializedRealm:
        """Made, filled and opened; the answer carries the first principal's secret, which is never shown again."""
        self.realms.create(name)
        return self.realms.init(name)

    def ensure_realm(self, name: str = "default") -> RealmHandle:
        try:
            self.create_realm(name)
        except RealmExists:
            self.realms.get(name)
        return self.realm(name)

    def close(self) -> None:
        self.stop_watching()
        self.store.close()

    def stop_watching(self) -> None:
        for watch in self._watches.values():
            watch.close()

    def __enter__(self) -> Headwater:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class RealmHandle:
    def __init__(self, kernel: RealmKernel, watch: HeadWatch) -> None:
        self.name = kernel.realm_name
        self.kernel = kernel
        self.feed = LocalFeed(kernel, watch)
        self._catalogs = Catalogs(kernel)

    def catalogs(self) -> list[str]:
        return [catalog.name for catalog in self._catalogs.list()]

    def catalog(self, name: str) -> CatalogHandle:
        return CatalogHandle(self, self._catalogs, name)

    def create_catalog(self, name: str, *, storage_root: str = "", author: str | None = None) -> CatalogHandle:
        self._catalogs.create(name, storage_root=storage_root, meta=_meta(author))
        return self.catalog(name)

    def ensure_catalog(self, name: str, *, storage_root: str = "", author: str | None = None) -> CatalogHandle:
        self._catalogs.ensure(name, storage_root=storage_root, meta=_meta(author))
        return self.catalog(name)

    def drop_catalog(self, name: str, *, author: str | None = None) -> None:
        self._catalogs.drop(name, meta=_meta(author))


class CatalogHandle:
    def __init__(self, realm: RealmHandle, catalogs: Catalogs, name: str) -> None:
        self.realm = realm
        self.info = catalogs.get(name)
        self.references = catalogs.references(self.info)

    @property
    def name(self) -> str:
        return self.info.name

    def branch(self, name: str | None = None) -> ReferenceHandle:
        return self._handle(name or self.info.default_branch, ReferenceType.BRANCH)

    def tag(self, name: str) -> ReferenceHandle:
        return self._handle(name, ReferenceType.TAG)

    def list_references(self, *, token: str | None = None, limit: int = 100, deleted: bool = False) -> ReferencePage:
        return self.references.list(token=token, limit=limit, deleted=deleted)

    def create_branch(
        self, name: str, at: str | None = None, *, author: str | None = None, message: str = ""
    ) -> ReferenceHandle:
        self.references.create(name, at or self.info.default_branch, type=ReferenceType.BRANCH, meta=_meta(author, message))
        return self.branch(name)

    def create_tag(self, name: str, at: str | None = None, *, author: str | None = None, message: str = "") -> ReferenceHandle:
        self.references.create(name, at or self.info.default_branch, type=ReferenceType.TAG, meta=_meta(author, message))
        return self.tag(name)

    def diff(self, before: str, after: str) -> Iterator[ChangedKey]:
        """Keys at which two references or commits differ, in key order."""
        old, new = self.references.resolve(before, field="before"), self.references.resolve(after, field="after")
        return changed_keys(self.realm.kernel, old.logged, new.logged)

    def log(self, at: str) -> Iterator[Change]:
        """Commits, newest first, across the branches that a reference came from."""
        kernel = self.realm.kernel
        resolved = self.references.resolve(at)
        return (change_of(commit, kernel.realm_name) for commit in Lineage(kernel).backward(resolved.logged))

    @staticmethod
    def author_or_me(author: str | None) -> str:
        return author or _this_user()

    def snapshot(self, at: str) -> Snapshot:
        resolved = self.references.resolve(at, field="at")
        return Snapshot(Snapshots(self.realm.kernel, self.info.id), resolved.logged)

    def merge(
        self,
        source: str,
        into: str | None = None,
        *,
        author: str | None = None,
        message: str = "",
        rules: MergeRules | None = None,
        expected_head: str | None = None,
        request_id: str | None = None,
    ) -> CommitResult:
        """Bring all that the source changed since both parted to the target, as one commit."""
        request = self._merge_request(source, author, message, rules, expected_head, request_id)
        return self._commit(into, request)

    def preview_merge(self, source: str, into: str | None = None, *, rules: MergeRules | None = None) -> MergePreview:
        """What a merge would do, key by key; nothing is written."""
        return self._merge_request(source, None, "", rules, None, None).preview(self._draft(into))

    def transplant(
        self,
        commits: Sequence[str],
        into: str | None = None,
        *,
        author: str | None = None,
        message: str = "",
        rules: MergeRules | None = None,
        expected_head: str | None = None,
        request_id: str | None = None,
    ) -> CommitResult:
        """Bring single commits over, oldest first, each as an entry of its own, all or none."""
        picked = [self.references.resolve(commit, field="commits").logged for commit in commits]
        head = None if expected_head is None else parse_id(expected_head, field="expected_head")
        request = TransplantRequest(picked, _meta(author, message), rules=rules, expected_head=head, request_id=request_id)
        return self._commit(into, request)

    # ── steps ───────────────────────────────────────────────────────────────────────────────────────────────

    def _handle(self, name: str, type: ReferenceType) -> ReferenceHandle:
        return ReferenceHandle(self, self.references.get(name, type=type, deleted_ok=True))

    def _merge_request(
        self,
        source: str,
        author: str | None,
        message: str,
        rules: MergeRules | None,
        expected_head: str | None,
        request_id: str | None,
    ) -> MergeRequest:
        resolved = self.references.resolve(source, field="source")
        return MergeRequest(
            self.realm.kernel,
            resolved.logged,
            resolved.pointer,
            _meta(author, message or f"Merge {source}"),
            rules=rules,
            expected_head=None if expected_head is None else parse_id(expected_head, field="expected_head"),
            request_id=request_id,
        )

    def _commit(self, into: str | None, request: MergeRequest | TransplantRequest) -> CommitResult:
        pointer = self.branch(into).pointer
        kernel = self.realm.kernel
        if isinstance(request, MergeRequest):
            return commit_result(kernel, commit_merge(kernel, pointer, request))
        return commit_result(kernel, kernel.committer.commit(pointer, request))

    def _draft(self, into: str | None) -> Draft:
        kernel, pointer = self.realm.kernel, self.branch(into).pointer
        head = load_head(kernel.objects, kernel.store.backend.read_pointer(kernel.realm, pointer))
        return Draft(pointer, head, kernel.objects, kernel.store, kernel.store.clock)


class ReferenceHandle:
    """A branch or tag. What it holds is read again with every call."""

    def __init__(self, catalog: CatalogHandle, reference: Reference) -> None:
        self.name = reference.name
        self.type = reference.type
        self.pointer = reference.pointer
        self._catalog = catalog
        self._kernel = catalog.realm.kernel
        self._feed = catalog.realm.feed

    def info(self) -> Reference:
        return self._catalog.references.get(self.name, type=self.type, deleted_ok=True)

    def commit(self, operations: Sequence[CatalogOperation], **options: Unpack[CommitOptions]) -> CommitResult:
        """All operations or none. `expected_head` is strict, `base_commit` conflicts only where keys changed since."""
        request = self._request(operations, **options)
        return commit_result(self._kernel, self._kernel.committer.commit(self.pointer, request))

    async def commit_async(self, operations: Sequence[CatalogOperation], **options: Unpack[CommitOptions]) -> CommitResult:
        request = self._request(operations, **options)
        return commit_result(self._kernel, await self._kernel.committer.commit_async(self.pointer, request))

    def log(self, at: str | None = None) -> Iterator[Change]:
        """Commits, newest first, across the branches that this one came from."""
        return self._catalog.log(at or self.name)

    def changes(self, after: str | int = "earliest", *, follow: bool = False, filter: Filter = NO_FILTER) -> Iterator[Change]:
        """Every entry behind the cursor, oldest first; with `follow`, those to come too. ⚠ The cursor is looked up now, not
        when the first Change is asked for: what is committed in between is behind `latest`."""
        return self._changes(self._feed.start(self.pointer, after), follow, filter)

    def changes_async(
        self, after: str | int = "earliest", *, follow: bool = True, filter: Filter = NO_FILTER
    ) -> AsyncIterator[Change]:
        return self._changes_async(self._feed.start(self.pointer, after), follow, filter)

    def _changes(self, position: Position, follow: bool, filter: Filter) -> Iterator[Change]:
        wait_seconds = FOLLOW_SECONDS if follow else 0.0
        while True:
            page = self._feed.page(self.pointer, position, filter=filter, wait_seconds=wait_seconds)
            yield from page.frame.changes
            if not follow and page.last.seq >= page.head.seq:
                return
            position = page.last

    async def _changes_async(self, position: Position, follow: bool, filter: Filter) -> AsyncIterator[Change]:
        wait_seconds = FOLLOW_SECONDS if follow else 0.0
        while True:
            page = await self._feed.page_async(self.pointer, position, filter=filter, wait_seconds=wait_seconds)
            for change in page.frame.changes:
                yield change
            if not follow and page.last.seq >= page.head.seq:
                return
            position = page.last

    def snapshot(self, at: str | None = None) -> Snapshot:
        """The state now, or at `name~n`, `name@commit`, `name*time`. Following from its entry leaves no seam."""
        return self._catalog.snapshot(at or self.name)

    def assign(self, target: str, *, expected_head: str | None = None, author: str | None = None) -> CommitResult:
        return self._catalog.references.assign(
            self.name, target, type=self.type, expected_head=expected_head, meta=_meta(author)
        )

    def delete(self, *, expected_head: str | None = None, author: str | None = None) -> CommitResult:
        return self._catalog.references.delete(self.name, type=self.type, expected_head=expected_head, meta=_meta(author))

    def _request(
        self,
        operations: Sequence[CatalogOperation],
        *,
        author: str | None = None,
        message: str = "",
        headers: dict[str, str] | None = None,
        expected_head: str | None = None,
        base_commit: str | None = None,
        request_id: str | None = None,
    ) -> CatalogCommit:
        meta = _meta(author, message, headers)
        return CatalogCommit(
            self._kernel, operations, meta, request_id=request_id, expected_head=expected_head, base_commit=base_commit
        )


def _meta(author: str | None, message: str = "", headers: dict[str, str] | None = None) -> CommitMeta:
    return CommitMeta(author or _this_user(), message, headers or {})


@functools.cache  # without LOGNAME in the environment it is looked up in the user database, which takes 30 µs
def _this_user() -> str:
    try:
        return getpass.getuser()
    except OSError:
        return "unknown"
