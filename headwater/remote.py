"""A server's address enters; the objects of the embedded engine leave: realm → catalog → branch, with commits and changes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from functools import partial

import httpx
import msgspec

from headwater.consumers.feed_http import FeedTarget
from headwater.consumers.http_poll import AsyncHttpPoll, HttpPoll
from headwater.consumers.reader import AsyncReader, Reader
from headwater.consumers.sse import AsyncHttpStream, HttpStream
from headwater.producer.catalog_commit import CommitResult
from headwater.producer.catalog_records import LIVE, Catalog, CatalogStatus
from headwater.producer.operations import CatalogOperation
from headwater.producer.pointer_names import CATALOGS, ReferenceType, reference_pointer
from headwater.producer.reference_specs import DEFAULT_BRANCH, Step, StepKind, parse_reference_spec
from headwater.producer.references import Reference, ReferencePage
from headwater.remote_snapshot import RemoteSnapshot
from headwater.remote_subscription import RemoteSubscription
from headwater.schemas.change import Change
from headwater.schemas.entry_ids import EMPTY, micros_of
from headwater.schemas.errors import CatalogNotFound, HeadwaterError, PointerNotFound, ReferenceNotFound
from headwater.schemas.feed_json import CommitBody, PointerInfo, PointerKind
from headwater.schemas.filters import NO_FILTER, Filter
from headwater.server_calls import ServerCalls, check_server_url, operations_body

POOL = httpx.Limits(max_connections=64, max_keepalive_connections=16)


def connect(url: str, *, token: str = "") -> RemoteHeadwater:
    """A server that is there, e.g. http://127.0.0.1:8181."""
    return RemoteHeadwater(check_server_url(url), token)


class RemoteHeadwater:
    def __init__(self, url: str, token: str = "") -> None:
        self.url = url
        self._token = token
        self._client = httpx.Client(limits=POOL)

    def realm(self, name: str = "default") -> RemoteRealm:
        """A realm that is ACTIVE."""
        calls = ServerCalls(self._client, FeedTarget(server=self.url, realm=name, token=self._token))
        calls.pointers(limit=1)
        return RemoteRealm(calls)

    def close(self) -> None:
        self._client.close()

    def __enter__(self) -> RemoteHeadwater:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class RemoteRealm:
    def __init__(self, calls: ServerCalls) -> None:
        self.name = calls.target.realm
        self.calls = calls

    def catalogs(self) -> list[str]:
        return sorted(catalog.name for catalog in self._records())

    def catalog(self, name: str) -> RemoteCatalog:
        for catalog in self._records():
            if catalog.name == name:
                return RemoteCatalog(self, catalog)
        raise CatalogNotFound(f"there is no catalog {name!r}.", field="catalog", remedy="List the catalogs.")

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
        self._calls = realm.calls

    @property
    def name(self) -> str:
        return self.info.name

    def branch(self, name: str | None = None) -> RemoteReference:
        return self._handle(name or self.info.default_branch, ReferenceType.BRANCH)

    def tag(self, name: str) -> RemoteReference:
        return self._handle(name, ReferenceType.TAG)

    def list_references(self, *, token: str | None = None, limit: int = 100, deleted: bool = False) -> ReferencePage:
        page = self._calls.pointers(f"cat/{self.info.id}/", token, limit)
        kept = [self.reference(info) for info in page.pointers if info.kind is not PointerKind.RECORDS]
        return ReferencePage([one for one in kept if deleted or not one.deleted], page.next_token)

    def log(self, at: str) -> Iterator[Change]:
        """Commits, newest first, across the branches that a reference came from; each costs one call."""
        commit_id = self.resolve(at)[1]
        while commit_id != EMPTY.hex():
            change = self._calls.find_commit(commit_id)
            yield change
            commit_id = change.parent_id

    def snapshot(self, at: str) -> RemoteSnapshot:
        pointer, commit_id, is_head = self.resolve(at)
        return RemoteSnapshot(self._calls, self._calls.state(pointer, "latest" if is_head else commit_id))

    def resolve(self, spec: str) -> tuple[str, str, bool]:
        """Pointer and commit that a spec leads to, and whether it is just the head of a reference."""
        parsed = parse_reference_spec(spec, "at")
        if parsed.commit is None and not parsed.steps:
            reference = self._named(parsed.name)
            return reference.pointer, reference.commit_id, True
        commit_id = self._named(parsed.name).commit_id if parsed.commit is None else parsed.commit.hex()
        for step in parsed.steps:
            commit_id = self._step(commit_id, step, spec)
        return self._calls.find_commit(commit_id).pointer, commit_id, False

    # ── steps ───────────────────────────────────────────────────────────────────────────────────────────────

    def reference(self, info: PointerInfo) -> Reference:
        type = ReferenceType.BRANCH if info.kind is PointerKind.BRANCH else ReferenceType.TAG
        return Reference(
            name=info.name.removeprefix(reference_pointer(self.info.id, type, "x")[:-1]),
            type=type,
            pointer=info.name,
            commit_id=info.commit_id,
            seq=info.seq,
            oldest_seq=info.oldest_seq,
            time=self._time(info),
            deleted=info.deleted,
        )

    def find(self, name: str, type: ReferenceType) -> Reference | None:
        pointer = reference_pointer(self.info.id, type, name)
        page = self._calls.pointers(pointer, limit=1)
        found = [info for info in page.pointers if info.name == pointer]
        return self.reference(found[0]) if found else None

    def _named(self, name: str | None) -> Reference:
        wanted = self.info.default_branch if name in (None, DEFAULT_BRANCH) else str(name)
        for type in (ReferenceType.BRANCH, ReferenceType.TAG):
            found = self.find(wanted, type)
            if found is not None and not found.deleted:
                return found
        raise _no_reference(wanted)

    def _handle(self, name: str, type: ReferenceType) -> RemoteReference:
        reference = self.find(name, type)
        if reference is None:
            raise _no_reference(name)
        return RemoteReference(self, reference)

    def _step(self, commit_id: str, step: Step, spec: str) -> str:
        change = self._calls.find_commit(commit_id)
        match step.kind:
            case StepKind.PARENT if step.number == 2 and change.source is not None:
                return change.source.commit_id
            case StepKind.PARENT:
                return _no_empty(change.parent_id, spec) if step.number == 1 else _no_empty(EMPTY.hex(), spec)
            case StepKind.ANCESTOR:
                for _ in range(step.number):
                    commit_id = _no_empty(self._calls.find_commit(commit_id).parent_id, spec)
            case StepKind.TIME:
                while micros_of(change.time) > step.number:
                    change = self._calls.find_commit(_no_empty(change.parent_id, spec))
                commit_id = change.commit_id
        return commit_id

    def _time(self, info: PointerInfo) -> str:
        """Of the newest entry: the last one behind the one before it."""
        reader = self.realm.reader([info.name], max(info.seq - 1, info.oldest_seq - 1))
        return next((change.time for change in reader.changes(follow=False) if change.seq == info.seq), "")


class RemoteReference:
    """A branch or tag. What it holds is read anew with every call."""

    def __init__(self, catalog: RemoteCatalog, reference: Reference) -> None:
        self.name = reference.name
        self.type = reference.type
        self.pointer = reference.pointer
        self._catalog = catalog
        self._calls = catalog.realm.calls

    def info(self) -> Reference:
        found = self._catalog.find(self.name, self.type)
        if found is None:
            raise _no_reference(self.name)
        return found

    def commit(
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
        """All operations or none. `expected_head` is strict, `base_commit` conflicts only where keys changed since."""
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

    async def commit_async(
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
        commit = partial(
            self.commit, operations, author=author, message=message, headers=headers, expected_head=expected_head,
            base_commit=base_commit, request_id=request_id,
        )  # fmt: skip
        return await asyncio.to_thread(commit)

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
        async with httpx.AsyncClient(limits=POOL) as client:
            poll = AsyncHttpPoll(client, target)
            reader = AsyncReader(AsyncHttpStream(client, target) if follow else poll, str(after), log=poll)
            async for change in reader.changes(follow=follow):
                yield change

    def snapshot(self, at: str | None = None) -> RemoteSnapshot:
        """The state now, or at `name~n`, `name@commit`, `name*time`. Following from its entry leaves no seam."""
        return self._catalog.snapshot(at or self.name)


def _no_empty(commit_id: str, spec: str) -> str:
    if commit_id == EMPTY.hex():
        raise ReferenceNotFound(f"{spec!r} leads beyond the first commit.", field="at", remedy="Go back fewer steps.")
    return commit_id


def _no_reference(name: str) -> HeadwaterError:
    return ReferenceNotFound(f"there is no branch or tag {name!r}.", field="reference", remedy="List the references.")
