"""`headwater.connect`: the objects of the embedded engine over HTTP: realm → catalog → branch, with commits and changes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from functools import partial
from typing import Unpack

import httpx
import msgspec

from headwater.client.client_credentials import SYSTEM_REALM, ClientCredentials
from headwater.client.remote_manage import RemoteManage
from headwater.client.remote_references import RemoteReferences
from headwater.client.remote_snapshot import RemoteSnapshot
from headwater.client.remote_subscription import RemoteSubscription
from headwater.client.server_calls import ServerCalls, check_server_url, operations_body
from headwater.commit_options import CommitOptions
from headwater.consumers.clients.feed_http import FeedTarget
from headwater.consumers.clients.http_poll import AsyncHttpPoll, HttpPoll
from headwater.consumers.clients.reader import AsyncReader, Reader
from headwater.consumers.clients.sse import AsyncHttpStream, HttpStream
from headwater.producer.catalogs.catalog_records import LIVE, Catalog, CatalogStatus
from headwater.producer.commits.catalog_commit import CommitResult
from headwater.producer.commits.operations import CatalogOperation
from headwater.producer.pointer_names import CATALOGS, ReferenceType
from headwater.producer.references.references import Reference, ReferencePage
from headwater.schemas.change import Change
from headwater.schemas.errors import CatalogNotFound, InvalidInput, PointerNotFound
from headwater.schemas.filters import NO_FILTER, Filter
from headwater.schemas.http.feed_json import CommitBody, PointerInfo
from headwater.schemas.http.manage_json import RealmInfo, RealmMade

POOL = httpx.Limits(max_connections=64, max_keepalive_connections=16)


def connect(url: str, *, token: str = "", client_id: str = "", client_secret: str = "") -> RemoteHeadwater:
    """A server that is there, e.g. http://127.0.0.1:8181; with a token, or with a client's id and secret to fetch them by."""
    server = check_server_url(url)
    if bool(client_id) != bool(client_secret) or (token and client_id):
        raise InvalidInput(
            "a client has an id and a secret, and needs no token.",
            field="client_id",
            remedy="Give a token, or an id and a secret.",
        )
    return RemoteHeadwater(server, token, ClientCredentials(server, client_id, client_secret) if client_id else None)


class RemoteHeadwater:
    def __init__(self, url: str, token: str = "", credentials: ClientCredentials | None = None) -> None:
        self.url = url
        self._token = token
        self._credentials = credentials
        self._client = httpx.Client(limits=POOL, auth=credentials)

    def realm(self, name: str = "default") -> RemoteRealm:
        """A realm that is ACTIVE."""
        calls = self._calls(name)
        calls.pointers(limit=1)
        return RemoteRealm(calls, self._credentials)

    def realms(self) -> list[RealmInfo]:
        """All realms, for a system administrator."""
        return list(RemoteManage(self._calls(SYSTEM_REALM)).realms())

    def create_realm(self, name: str = "default") -> RealmMade:
        """Made, filled and opened; the answer carries the first principal's secret, which is never shown again."""
        return RemoteManage(self._calls(SYSTEM_REALM)).create_realm(name)

    def _calls(self, realm: str) -> ServerCalls:
        return ServerCalls(self._client, FeedTarget(server=self.url, realm=realm, token=self._token))

    def close(self) -> None:
        self._client.close()

    def __enter__(self) -> RemoteHeadwater:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class RemoteRealm:
    def __init__(self, calls: ServerCalls, credentials: ClientCredentials | None = None) -> None:
        self.name = calls.target.realm
        self.calls = calls
        self.manage = RemoteManage(calls)
        self.credentials = credentials

    def catalogs(self) -> list[str]:
        return sorted(catalog.name for catalog in self._records())

    def catalog(self, name: str) -> RemoteCatalog:
        for catalog in self._records():
            if catalog.name == name:
                return RemoteCatalog(self, catalog)
        raise CatalogNotFound(f"there is no catalog {name!r}.", field="catalog", remedy="List the catalogs.")

    def create_catalog(self, name: str, *, storage_root: str = "") -> RemoteCatalog:
        self.manage.create_catalog(name, storage_root)
        return self.catalog(name)

    def drop_catalog(self, name: str) -> None:
        self.manage.drop_catalog(name)

    def pointers(self, prefix: str = "") -> Iterator[PointerInfo]:
        return self.calls.all_pointers(prefix)

    def reader(
        self, pointers: Sequence[str], after: str | int = "earliest", *, filter: Filter = NO_FILTER, stream: bool = False
    ) -> Reader:
        """Changes of several pointers, merged by time, with a cursor to keep; over long polls, or over a stream of events."""
        target = msgspec.structs.replace(self.calls.target, pointers=tuple(pointers), filter=filter)
        poll = HttpPoll(self.calls.client, target)
        return Reader(HttpStream(self.calls.client, target) if stream else poll, str(after), log=poll)

    def subscription(self, name: str) -> RemoteSubscription:
        """Positions that the server keeps under a name."""
        return RemoteSubscription(self.calls, name)

    def _records(self) -> Iterator[Catalog]:
        try:
            entries = self.calls.state_entries(self.calls.state(CATALOGS))
        except PointerNotFound:
            return
        for entry in entries:
            if entry.key[: len(LIVE)] == LIVE:
                catalog = msgspec.convert(entry.value, Catalog)
                if catalog.status is CatalogStatus.ACTIVE:
                    yield catalog


class RemoteCatalog:
    def __init__(self, realm: RemoteRealm, info: Catalog) -> None:
        self.realm = realm
        self.info = info
        self.references = RemoteReferences(realm.calls, info)

    @property
    def name(self) -> str:
        return self.info.name

    def branch(self, name: str | None = None) -> RemoteReference:
        return self._handle(name or self.info.default_branch, ReferenceType.BRANCH)

    def tag(self, name: str) -> RemoteReference:
        return self._handle(name, ReferenceType.TAG)

    def list_references(self, *, token: str | None = None, limit: int = 100, deleted: bool = False) -> ReferencePage:
        return self.references.list(token=token, limit=limit, deleted=deleted)

    def create_branch(self, name: str, at: str | None = None) -> RemoteReference:
        self.realm.manage.create_reference(self.name, name, ReferenceType.BRANCH, at)
        return self.branch(name)

    def create_tag(self, name: str, at: str | None = None) -> RemoteReference:
        self.realm.manage.create_reference(self.name, name, ReferenceType.TAG, at)
        return self.tag(name)

    def log(self, at: str) -> Iterator[Change]:
        """Commits, newest first, across the branches that a reference came from; each costs one call."""
        return self.references.log(at)

    def snapshot(self, at: str) -> RemoteSnapshot:
        found = self.references.resolve(at)
        calls = self.realm.calls
        return RemoteSnapshot(calls, calls.state(found.pointer, "latest" if found.is_head else found.commit_id))

    def _handle(self, name: str, type: ReferenceType) -> RemoteReference:
        return RemoteReference(self, self.references.get(name, type))


class RemoteReference:
    """A branch or tag. What it holds is read again with every call."""

    def __init__(self, catalog: RemoteCatalog, reference: Reference) -> None:
        self.name = reference.name
        self.type = reference.type
        self.pointer = reference.pointer
        self._catalog = catalog
        self._calls = catalog.realm.calls

    def info(self) -> Reference:
        return self._catalog.references.get(self.name, self.type)

    def commit(self, operations: Sequence[CatalogOperation], **options: Unpack[CommitOptions]) -> CommitResult:
        """All operations or none. `expected_head` is strict, `base_commit` conflicts only where keys changed since."""
        return self._send(operations, **options)

    async def commit_async(self, operations: Sequence[CatalogOperation], **options: Unpack[CommitOptions]) -> CommitResult:
        return await asyncio.to_thread(partial(self._send, operations, **options))

    def _send(
        self,
        operations: Sequence[CatalogOperation],
        *,
        author: str | None = None,
        message: str = "",
        headers: dict[str, str] | None = None,
        expected_head: str | None = None,
        base_commit: str | None = None,
        request_id: str | None = None,
    ) -> CommitResult:
        body = CommitBody(
            catalog=self._catalog.name,
            branch=self.name,
            operations=operations_body(operations),
            author=author,
            message=message,
            headers=headers or {},
            expected_head=expected_head,
            base_commit=base_commit,
        )
        answer = self._calls.commit(body, request_id)
        return CommitResult(told=answer.change, commit_id=answer.commit_id, seq=answer.seq, replayed=answer.replayed)

    def log(self, at: str | None = None) -> Iterator[Change]:
        """Commits, newest first, across the branches that this one came from."""
        return self._catalog.log(at or self.name)

    def reader(self, after: str | int = "earliest", *, filter: Filter = NO_FILTER, stream: bool = False) -> Reader:
        """The Changes with a cursor to keep beside what you make of them."""
        return self._catalog.realm.reader([self.pointer], after, filter=filter, stream=stream)

    def changes(self, after: str | int = "earliest", *, follow: bool = False, filter: Filter = NO_FILTER) -> Iterator[Change]:
        """Every entry behind the cursor, oldest first; with `follow`, those to come too."""
        return self.reader(after, filter=filter).changes(follow=follow)

    async def changes_async(
        self, after: str | int = "earliest", *, follow: bool = True, filter: Filter = NO_FILTER
    ) -> AsyncIterator[Change]:
        """Over a stream of events with `follow`; over polls without."""
        target = msgspec.structs.replace(self._calls.target, pointers=(self.pointer,), filter=filter)
        async with httpx.AsyncClient(limits=POOL, auth=self._catalog.realm.credentials) as client:
            poll = AsyncHttpPoll(client, target)
            reader = AsyncReader(AsyncHttpStream(client, target) if follow else poll, str(after), log=poll)
            async for change in reader.changes(follow=follow):
                yield change

    def snapshot(self, at: str | None = None) -> RemoteSnapshot:
        """The state now, or at `name~n`, `name@commit`, `name*time`. Following from its entry leaves no seam."""
        return self._catalog.snapshot(at or self.name)

    def assign(self, target: str, *, expected_head: str | None = None) -> CommitResult:
        """Move it to any commit of the catalog."""
        done = self._catalog.realm.manage.assign(self._catalog.name, self.name, self.type, target, expected_head)
        return CommitResult(commit_id=done.reference.commit_id, seq=done.meta.seq, replayed=done.meta.replayed)

    def delete(self, *, expected_head: str | None = None) -> CommitResult:
        """Its log can still be read."""
        before = self.info()
        done = self._catalog.realm.manage.delete(self._catalog.name, self.name, self.type, expected_head)
        return CommitResult(commit_id=before.commit_id, seq=done.meta.seq, replayed=done.meta.replayed)
