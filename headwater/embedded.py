"""`headwater.open`: the embedded engine: realm → catalog → branch, with commits, changes, snapshots and merges."""

from __future__ import annotations

import functools
import getpass
from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from typing import Any, Unpack

from headwater.commit_options import CommitOptions, MergeOptions, check_options
from headwater.consumers.clients.local_feed import LocalFeed
from headwater.handles import CatalogBase, ReferenceBase
from headwater.local_logs import LocalLogs
from headwater.persistence.clock import Clock
from headwater.persistence.commit.observer import Observer
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
from headwater.producer.history.reference_log import ReferenceLog
from headwater.producer.merging.apply_changes import MergeRules
from headwater.producer.merging.changed_keys import ChangedKey, changed_keys
from headwater.producer.merging.merge import MergeRequest, commit_merge
from headwater.producer.merging.merge_preview import preview_merge
from headwater.producer.merging.named_merges import merge_request, transplant_request
from headwater.producer.references.references import Reference as ReferenceInfo
from headwater.producer.references.references import References
from headwater.schemas.change import Change, Kind
from headwater.schemas.errors import RealmExists
from headwater.schemas.filters import NO_FILTER, Filter
from headwater.schemas.http.merge_json import MergePreview
from headwater.snapshot import Snapshot
from headwater.streaming.files.reach_files import condemned_files_of


def open_embedded(
    url: str,
    *,
    create: bool = False,
    options: StoreOptions | None = None,
    clock: Clock | None = None,
    observers: Sequence[Observer] = (),
) -> Headwater:
    """The engine in this process, on an existing store or, with `create`, on a new one."""
    store = open_store(url, options, create=create, clock=clock, observers=observers)
    store.reach_files = condemned_files_of({})
    return Headwater(store)


class Headwater:
    def __init__(self, store: Store) -> None:
        self.store = store
        self.realms = Realms(store)
        self._watches: dict[str, HeadWatch] = {}

    def realm(self, name: str = "default") -> RealmHandle:
        """A realm that is ACTIVE."""
        kernel = self.realms.require_active(name)
        return RealmHandle(kernel, self._watch(kernel))

    def system_logs(self) -> LocalLogs:
        """The logs of `::system::`; its pointer `realms` says who created, opened, closed, purged and deleted which realm."""
        return LocalLogs(self.store.system, self._watch(self.store.system))

    def create_realm(self, name: str = "default") -> InitializedRealm:
        """Created, filled and opened; the result contains the first principal's secret, which is never shown again."""
        self.realms.create(name)
        return self.realms.init(name)

    def ensure_realm(self, name: str = "default") -> RealmHandle:
        try:
            self.create_realm(name)
        except RealmExists:
            self.realms.get(name)
        return self.realm(name)

    def _watch(self, kernel: RealmKernel) -> HeadWatch:
        if kernel.realm not in self._watches:
            self._watches[kernel.realm] = HeadWatch(kernel)
        return self._watches[kernel.realm]

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
        self.logs = LocalLogs(kernel, watch)
        self._catalogs = Catalogs(kernel)

    @property
    def instance(self) -> str:
        return self.kernel.realm

    @property
    def feed(self) -> LocalFeed:
        return self.logs.feed

    def catalogs(self) -> list[str]:
        return [catalog.name for catalog in self._catalogs.list()]

    def catalog(self, name: str) -> CatalogHandle:
        return CatalogHandle(self, self._catalogs, name)

    def create_catalog(self, name: str, *, storage_root: str = "", author: str | None = None) -> CatalogHandle:
        self._catalogs.create(name, storage_root=storage_root, meta=commit_meta(author))
        return self.catalog(name)

    def ensure_catalog(self, name: str, *, storage_root: str = "", author: str | None = None) -> CatalogHandle:
        self._catalogs.ensure(name, storage_root=storage_root, meta=commit_meta(author))
        return self.catalog(name)

    def drop_catalog(self, name: str, *, author: str | None = None) -> None:
        self._catalogs.drop(name, meta=commit_meta(author))


class CatalogHandle(CatalogBase["ReferenceHandle", Snapshot]):
    def __init__(self, realm: RealmHandle, catalogs: Catalogs, name: str) -> None:
        self.realm = realm
        self.info = catalogs.get(name)
        self._references = catalogs.references(self.info)

    @property
    def references(self) -> References:
        return self._references

    def meta(self, author: str | None = None, message: str = "") -> CommitMeta:
        return commit_meta(author, message)

    def diff(self, before: str, after: str) -> Iterator[ChangedKey]:
        old, new = self.references.resolve(before, field="before"), self.references.resolve(after, field="after")
        return changed_keys(self.realm.kernel, old.logged, new.logged)

    def log(self, at: str) -> Iterator[Change]:
        kernel = self.realm.kernel
        resolved = self.references.resolve(at)
        return (change_of(commit, kernel.realm_name) for commit in Lineage(kernel).backward(resolved.logged))

    def reference_log(self, kinds: Collection[Kind] = ()) -> Iterator[Change]:
        return ReferenceLog(self.realm.kernel, self.info.id).all(kinds)

    def snapshot(self, at: str) -> Snapshot:
        resolved = self.references.resolve(at, field="at")
        return Snapshot(Snapshots(self.realm.kernel, self.info.id), resolved.logged)

    def merge(self, source: str, into: str | None = None, **options: Unpack[MergeOptions]) -> CommitResult:
        kernel, pointer = self.realm.kernel, self.branch(into).pointer
        return commit_result(kernel, commit_merge(kernel, pointer, self._merge_request(source, options)))

    def preview_merge(self, source: str, into: str | None = None, *, rules: MergeRules | None = None) -> MergePreview:
        return preview_merge(self.realm.kernel, self.branch(into).pointer, self._merge_request(source, {"rules": rules}))

    def transplant(self, commits: Sequence[str], into: str | None = None, **options: Unpack[MergeOptions]) -> CommitResult:
        kernel, pointer = self.realm.kernel, self.branch(into).pointer
        meta, others = self._options(options)
        request = transplant_request(kernel, self.references, commits, meta, **others)
        return commit_result(kernel, kernel.committer.commit(pointer, request))

    def _merge_request(self, source: str, options: MergeOptions) -> MergeRequest:
        meta, others = self._options(options)
        return merge_request(self.realm.kernel, self.references, source, meta, **others)

    def _options(self, options: MergeOptions) -> tuple[CommitMeta, dict[str, Any]]:
        check_options(options, MergeOptions)
        others = {name: options.get(name) for name in ("rules", "expected_head", "request_id")}
        return self.meta(options.get("author"), options.get("message", "")), others

    def _handle(self, info: ReferenceInfo) -> ReferenceHandle:
        return ReferenceHandle(self, info)


class ReferenceHandle(ReferenceBase[Snapshot]):
    """A branch or tag. Its contents are read again with every call."""

    def __init__(self, catalog: CatalogHandle, info: ReferenceInfo) -> None:
        super().__init__(catalog, info)
        self._kernel = catalog.realm.kernel
        self._logs = catalog.realm.logs

    def commit(self, operations: Sequence[CatalogOperation], **options: Unpack[CommitOptions]) -> CommitResult:
        request = self._request(operations, options)
        return commit_result(self._kernel, self._kernel.committer.commit(self.pointer, request))

    async def commit_async(self, operations: Sequence[CatalogOperation], **options: Unpack[CommitOptions]) -> CommitResult:
        request = self._request(operations, options)
        return commit_result(self._kernel, await self._kernel.committer.commit_async(self.pointer, request))

    def changes(self, after: str | int = "earliest", *, follow: bool = False, filter: Filter = NO_FILTER) -> Iterator[Change]:
        """Every entry after the cursor, oldest first; with `follow`, future ones too."""
        return self._logs.changes(self.pointer, after, follow=follow, filter=filter)

    def changes_async(
        self, after: str | int = "earliest", *, follow: bool = True, filter: Filter = NO_FILTER
    ) -> AsyncIterator[Change]:
        return self._logs.changes_async(self.pointer, after, follow=follow, filter=filter)

    def _request(self, operations: Sequence[CatalogOperation], options: CommitOptions) -> CatalogCommit:
        check_options(options, CommitOptions)
        return CatalogCommit(
            self._kernel,
            operations,
            commit_meta(options.get("author"), options.get("message", ""), options.get("headers")),
            request_id=options.get("request_id"),
            expected_head=options.get("expected_head"),
            base_commit=options.get("base_commit"),
        )


def commit_meta(author: str | None, message: str = "", headers: dict[str, str] | None = None) -> CommitMeta:
    return CommitMeta(author or _this_user(), message, headers or {})


@functools.cache  # without LOGNAME in the environment it is looked up in the user database, which takes 30 µs
def _this_user() -> str:
    try:
        return getpass.getuser()
    except OSError:
        return "unknown"
