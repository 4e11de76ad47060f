"""Reads the commit log of a Nessie branch over API v2, commit by commit, oldest first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import quote

import httpx
import msgspec

from headwater.producer.connectors.source_spi import (
    ConnectorSpec,
    SourceCommit,
    SourceContent,
    SourceOperation,
    SourceState,
)
from headwater.producer.content.content_types import DELTA_TABLE, NAMESPACE, all_content_types
from headwater.schemas.change import KeyPath, Op, Value
from headwater.schemas.errors import CursorReset, SourceRefused
from headwater.service.reconciling.sources.upstream import (
    Listing,
    Upstream,
    check_known,
    check_uri,
    decoded,
    log_in,
    refused,
)

PROPERTIES = frozenset({"reference", "token_path"})
PAGE_COMMITS = 200
HASHES_MAX = 1_000_000
"""Commits that one run may lie behind; what is older is one resync."""
_UNSET = {"snapshotId": -1, "versionId": -1}


class _Reference(msgspec.Struct, frozen=True):
    hash: str


class _ReferenceAnswer(msgspec.Struct, frozen=True):
    reference: _Reference


class _Key(msgspec.Struct, frozen=True):
    elements: list[str]

    @property
    def path(self) -> KeyPath:
        return tuple(self.elements)


class _Meta(msgspec.Struct, frozen=True, rename="camel"):
    hash: str
    message: str = ""
    committer: str = ""
    authors: list[str] = []
    commit_time: str = ""


class _Operation(msgspec.Struct, frozen=True):
    type: str
    key: _Key
    content: dict[str, Any] | None = None


class _LogEntry(msgspec.Struct, frozen=True, rename="camel"):
    commit_meta: _Meta
    operations: list[_Operation] | None = None


class _History(msgspec.Struct, frozen=True, rename="camel"):
    log_entries: list[_LogEntry]
    has_more: bool = False
    token: str | None = None


class _Entry(msgspec.Struct, frozen=True):
    name: _Key
    content: dict[str, Any]


class _Entries(msgspec.Struct, frozen=True, rename="camel"):
    entries: list[_Entry]
    has_more: bool = False
    token: str | None = None


class NessieSource:
    def __init__(self, upstream: Upstream, spec: ConnectorSpec, secret: bytes) -> None:
        self._upstream = upstream
        self._reference = spec.properties.get("reference", "main")
        log_in(upstream, secret, spec.properties.get("token_path", "/iceberg/v1/oauth/tokens"))

    def check(self) -> None:
        self._head()

    def close(self) -> None:
        self._upstream.close()

    def changes(self, position: str) -> Iterator[SourceCommit]:
        """⚠ Hashes first, newest to oldest, until the position is found: only then is it known that nothing is missing."""
        hashes = self._hashes_after(position, self._head())
        while hashes:
            batch, hashes = hashes[-PAGE_COMMITS:], hashes[:-PAGE_COMMITS]
            found = self._history(batch[0], len(batch), fetch="ALL").log_entries
            if [one.commit_meta.hash for one in found] != batch:
                raise SourceRefused("the log has changed while it was read.", field="uri", remedy="Reconcile again.")
            for entry in reversed(found):
                yield _commit(entry)

    def state(self) -> SourceState:
        head = self._head()
        return SourceState(position=head, version=head, contents=self._contents(head))

    def _head(self) -> str:
        return self._upstream.read(self._tree(), _ReferenceAnswer).reference.hash

    def _hashes_after(self, position: str, head: str) -> list[str]:
        """Newest first, down to the position; down to the beginning without one."""
        if head == position:
            return []
        hashes: list[str] = []
        listing = Listing("history")
        token: str | None = None
        while True:
            page = self._history(head, 1_000, token=token)
            for entry in page.log_entries:
                if entry.commit_meta.hash == position:
                    return hashes
                hashes.append(entry.commit_meta.hash)
            if len(hashes) > HASHES_MAX:
                raise _reset(f"it is more than {HASHES_MAX} commits back")
            token = listing.next_page(page.token, len(page.log_entries)) if page.has_more else None
            if token is None:
                break
        if position:
            raise _reset(f"{position[:64]} is not in it")
        return hashes

    def _history(self, at: str, records: int, *, fetch: str = "MINIMAL", token: str | None = None) -> _History:
        query: dict[str, str | int] = {"max-records": records, "fetch": fetch, **({"page-token": token} if token else {})}
        path = f"{self._tree(at)}/history"
        answer = self._upstream.get(path, query)
        if answer.status_code == httpx.codes.NOT_FOUND:
            raise _reset(f"the source does not know {at[:64]}")
        if answer.status_code != httpx.codes.OK:
            raise refused(path, answer)
        return decoded(path, answer, _History)

    def _contents(self, head: str) -> Iterator[SourceContent]:
        listing = Listing("entries")
        token: str | None = None
        while True:
            query: dict[str, str | int] = {"content": "true", "max-records": 500, **({"page-token": token} if token else {})}
            page = self._upstream.read(f"{self._tree(head)}/entries", _Entries, query)
            for entry in page.entries:
                yield _content(entry.name.path, entry.content)
            token = listing.next_page(page.token, len(page.entries)) if page.has_more else None
            if token is None:
                return

    def _tree(self, at: str = "") -> str:
        name = quote(self._reference, safe="")
        return f"/trees/{name}@{at}" if at else f"/trees/{name}"


def _commit(entry: _LogEntry) -> SourceCommit:
    meta = entry.commit_meta
    return SourceCommit(
        position=meta.hash,
        version=meta.hash,
        author=meta.authors[0] if meta.authors else meta.committer,
        message=meta.message,
        time=meta.commit_time,
        operations=tuple(_operations(entry.operations or ())),
    )


def _operations(operations: Sequence[_Operation]) -> Iterator[SourceOperation]:
    for operation in operations:
        key = operation.key.path
        if operation.type == "DELETE":
            yield SourceOperation(op=Op.DELETE, key=key)
        elif operation.type == "PUT" and operation.content is not None:
            yield SourceOperation(op=Op.PUT, key=key, content=_content(key, operation.content))
        elif operation.type != "UNCHANGED":
            raise SourceRefused(f"an operation {operation.type[:40]!r} is not known.", field="uri")


def _content(key: KeyPath, content: dict[str, Any]) -> SourceContent:
    """Known types with our fields; others as they are."""
    nessie_type, id = str(content.get("type", "")), str(content.get("id", ""))
    type = DELTA_TABLE.name if nessie_type == "DELTA_LAKE_TABLE" else nessie_type
    if type == NAMESPACE.name:
        return SourceContent(key=key, id=id, type=type, value={"properties": dict(content.get("properties") or {})})
    rest = {name: field for name, field in content.items() if name not in ("type", "id") and _UNSET.get(name) != field}
    known = all_content_types().find(type)
    if known is None:
        return SourceContent(key=key, id=id, type=type, value=rest)
    value: Value = {ours: rest[camel] for ours in known.fields if (camel := _camel(ours)) in rest and rest[camel] is not None}
    return SourceContent(key=key, id=id, type=type, value=value)


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _reset(why: str) -> CursorReset:
    return CursorReset(f"the source's log: {why}.", field="position", remedy="The destination is compared as a whole.")


def check_spec(spec: ConnectorSpec) -> None:
    check_uri(spec)
    check_known(spec, PROPERTIES)
