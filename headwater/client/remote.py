"""`headwater.connect`: the objects of the embedded engine, of a server: realm → catalog → branch, with commits and changes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from typing import Unpack

import msgspec

from headwater.client.remote_connectors import RemoteConnectors
from headwater.client.remote_logs import RemoteLogs, read_reference_log
from headwater.client.remote_manage import RemoteManage, RemoteRealms
from headwater.client.remote_merges import catalog_path, merge_fields, read_diff, send_merge
from headwater.client.remote_references import RemoteReferences, catalog_record
from headwater.client.remote_snapshot import RemoteSnapshot
from headwater.client.remote_subscription import RemoteSubscription
from headwater.client.server_calls import ServerCalls, commit_outcome, operations_body
from headwater.commit_options import CommitOptions, MergeOptions, check_options
from headwater.consumers.clients.client_credentials import SYSTEM_REALM
from headwater.consumers.clients.connection import Connection
from headwater.consumers.clients.http_poll import AsyncHttpPoll
from headwater.consumers.clients.reader import AsyncReader, Reader
from headwater.consumers.clients.sse import AsyncHttpStream
from headwater.handles import CatalogBase, ReferenceBase
from headwater.manage import NewRealm
from headwater.producer.commits.catalog_commit import CommitResult
from headwater.producer.commits.commit_meta import CommitMeta
from headwater.producer.commits.operations import CatalogOperation
from headwater.producer.merging.apply_changes import MergeRules
from headwater.producer.merging.changed_keys import ChangedKey
from headwater.producer.references.references import Reference as ReferenceInfo
from headwater.schemas.change import Change, Kind
from headwater.schemas.filters import NO_FILTER, Filter
from headwater.schemas.http.feed_json import CommitBody, PointerInfo
from headwater.schemas.http.manage_json import CatalogInfo, RealmInfo
from headwater.schemas.http.merge_json import MergeBody, MergePreview, TransplantBody


def connect(url: str, *, token: str = "", client_id: str = "", client_secret: str = "", ca: str = "") -> RemoteHeadwater:
    """A running server, e.g. http://127.0.0.1:8181, or its gRPC port, e.g. grpc://127.0.0.1:8182 (grpcs:// over TLS). A `token`
    ends with its life; a client's id and secret fetch new ones. `ca` names a PEM file with the certificates to trust, for
    servers whose certificate is not publicly signed."""
    return RemoteHeadwater(Connection(url, token=token, client_id=client_id, client_secret=client_secret, ca=ca))


class RemoteHeadwater:
    def __init__(self, connection: Connection) -> None:
        self.url = connection.server
        self._connection = connection
        self._client = connection.client()

    def realm(self, name: str = "default") -> RemoteRealm:
        """A realm that is ACTIVE."""
        calls = self._calls(name)
        calls.pointers(limit=1)
        return RemoteRealm(calls, self._connection)

    def realms(self) -> list[RealmInfo]:
        """All realms, for a system administrator."""
        return list(self.manage_realms().realms())

    def create_realm(self, name: str = "default") -> NewRealm:
        """Created, filled and opened; the response contains the first principal's secret, which is never shown again."""
        return self.manage_realms().create(name, initialize=True)

    def manage_realms(self) -> RemoteRealms:
        return RemoteRealms(self._calls(SYSTEM_REALM))

    def system_logs(self) -> RemoteLogs:
        """The logs of `::system::`; its pointer `realms` says who created, opened, closed, purged and deleted which realm."""
        return RemoteLogs(self._calls(SYSTEM_REALM))

    def manage(self, realm: str) -> RemoteManage:
        """The records of a realm, or of the system, whether or not it has data to read."""
        return RemoteManage(self._calls(realm))

    def connectors(self, realm: str) -> RemoteConnectors:
        return RemoteConnectors(self._calls(realm))

    def _calls(self, realm: str) -> ServerCalls:
        return ServerCalls(self._client, self._connection.target(realm))

    def close(self) -> None:
        self._client.close()

    def __enter__(self) -> RemoteHeadwater:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class RemoteRealm:
    def __init__(self, calls: ServerCalls, connection: Connection) -> None:
        self.name = calls.target.realm
        self.calls = calls
        self.logs = RemoteLogs(calls)
        self.manage = RemoteManage(calls)
        self.connection = connection

    @property
    def instance(self) -> str:
        return self.calls.pointers(limit=1).realm_instance

    def catalogs(self) -> list[str]:
        return [one.name for one in self.manage.catalogs()]

    def catalog(self, name: str) -> RemoteCatalog:
        return RemoteCatalog(self, self.manage.catalog(name))

    def create_catalog(self, name: str, *, storage_root: str = "", author: str | None = None) -> RemoteCatalog:
        """The author is the caller: a server accepts no other."""
        self.manage.create_catalog(name, storage_root=storage_root)
        return self.catalog(name)

    def drop_catalog(self, name: str, *, author: str | None = None) -> None:
        self.manage.drop_catalog(name)

    def pointers(self, prefix: str = "") -> Iterator[PointerInfo]:
        return self.calls.all_pointers(prefix)

    def reader(
        self, pointers: Sequence[str], after: str | int = "earliest", *, filter: Filter = NO_FILTER, stream: bool = False
    ) -> Reader:
        """Changes of several pointers, merged by time, with a cursor to keep; over long polls, or over a stream of events."""
        return self.logs.reader(pointers, after, filter=filter, stream=stream)

    def subscription(self, name: str) -> RemoteSubscription:
        """Positions that the server keeps under a name."""
        return RemoteSubscription(self.calls, name)


class RemoteCatalog(CatalogBase["RemoteReference", RemoteSnapshot]):
    def __init__(self, realm: RemoteRealm, info: CatalogInfo) -> None:
        self.realm = realm
        self.info = catalog_record(info)
        self._references = RemoteReferences(realm.calls, realm.manage, self.info)

    @property
    def references(self) -> RemoteReferences:
        return self._references

    def meta(self, author: str | None = None, message: str = "") -> CommitMeta:
        return CommitMeta(author or "", message)

    def log(self, at: str) -> Iterator[Change]:
        """Each commit costs one call."""
        return self.references.log(at)

    def reference_log(self, kinds: Collection[Kind] = ()) -> Iterator[Change]:
        return read_reference_log(self.realm.calls, self.name, kinds)

    def snapshot(self, at: str) -> RemoteSnapshot:
        found = self.references.resolve(at)
        calls = self.realm.calls
        return RemoteSnapshot(calls, calls.state(found.pointer, "latest" if found.is_head else found.commit_id))

    def diff(self, before: str, after: str) -> Iterator[ChangedKey]:
        return read_diff(self.realm.calls, self.name, before, after)

    def merge(self, source: str, into: str | None = None, **options: Unpack[MergeOptions]) -> CommitResult:
        check_options(options, MergeOptions)
        body = MergeBody(source=source, **merge_fields(into, options))
        return send_merge(self.realm.calls, self.name, body, options)

    def preview_merge(self, source: str, into: str | None = None, *, rules: MergeRules | None = None) -> MergePreview:
        body = MergeBody(source=source, **merge_fields(into, {"rules": rules}))
        calls = self.realm.calls
        return calls.post(catalog_path(calls, self.name, "merge-preview"), body, MergePreview)

    def transplant(self, commits: Sequence[str], into: str | None = None, **options: Unpack[MergeOptions]) -> CommitResult:
        check_options(options, MergeOptions)
        body = TransplantBody(commits=list(commits), **merge_fields(into, options))
        return send_merge(self.realm.calls, self.name, body, options)

    def _handle(self, info: ReferenceInfo) -> RemoteReference:
        return RemoteReference(self, info)


class RemoteReference(ReferenceBase[RemoteSnapshot]):
    """A branch or tag. Its contents are read again with every call."""

    def __init__(self, catalog: RemoteCatalog, info: ReferenceInfo) -> None:
        super().__init__(catalog, info)
        self._catalog = catalog
        self._calls = catalog.realm.calls

    def commit(self, operations: Sequence[CatalogOperation], **options: Unpack[CommitOptions]) -> CommitResult:
        return self._send(operations, options)

    async def commit_async(self, operations: Sequence[CatalogOperation], **options: Unpack[CommitOptions]) -> CommitResult:
        return await asyncio.to_thread(self._send, operations, options)

    def _send(self, operations: Sequence[CatalogOperation], options: CommitOptions) -> CommitResult:
        check_options(options, CommitOptions)
        body = CommitBody(
            catalog=self._catalog.name,
            branch=self.name,
            operations=operations_body(operations),
            author=options.get("author"),
            message=options.get("message", ""),
            headers=options.get("headers") or {},
            expected_head=options.get("expected_head"),
            base_commit=options.get("base_commit"),
        )
        return commit_outcome(self._calls.commit("commit", body, options.get("request_id")))

    def reader(self, after: str | int = "earliest", *, filter: Filter = NO_FILTER, stream: bool = False) -> Reader:
        """The Changes with a cursor to store beside what you build from them."""
        return self._catalog.realm.reader([self.pointer], after, filter=filter, stream=stream)

    def changes(self, after: str | int = "earliest", *, follow: bool = False, filter: Filter = NO_FILTER) -> Iterator[Change]:
        """Every entry after the cursor, oldest first; with `follow`, future ones too."""
        return self.reader(after, filter=filter).changes(follow=follow)

    async def changes_async(
        self, after: str | int = "earliest", *, follow: bool = True, filter: Filter = NO_FILTER
    ) -> AsyncIterator[Change]:
        """Over a stream of events with `follow`; over polls without."""
        target = msgspec.structs.replace(self._calls.target, pointers=(self.pointer,), filter=filter)
        async with self._catalog.realm.connection.async_client() as client:
            poll = AsyncHttpPoll(client, target)
            reader = AsyncReader(AsyncHttpStream(client, target) if follow else poll, str(after), log=poll)
            async for change in reader.changes(follow=follow):
                yield change
