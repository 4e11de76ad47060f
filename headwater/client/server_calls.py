"""Sends calls to a server, returns typed responses or the server's error, and retries what may be sent again."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import httpx
import msgspec

from headwater.consumers.backoff import Backoff
from headwater.consumers.clients.feed_http import FeedTarget, Query, error_of, timeout, unreachable
from headwater.producer.commits.catalog_commit import CommitResult
from headwater.producer.commits.operations import CatalogOperation, Delete, Put, Rename, Unchanged, prepare
from headwater.producer.content.content_types import AnyContent, to_value
from headwater.schemas.change import Change
from headwater.schemas.errors import CommitOutcomeUnknown, FeedUnreachable, HeadwaterError, InvalidInput
from headwater.schemas.http.feed_json import CommitAnswer, PointerInfo, PointersPage, SnapshotEntry, StatePage

CALL_TRIES_MAX = 6
COMMIT_SECONDS = 60.0
"""How long the server may take for a commit under contention."""

T = TypeVar("T")


class ServerCalls:
    """One realm of one server. Thread-safe, as its client is."""

    def __init__(self, client: httpx.Client, target: FeedTarget) -> None:
        self.client = client
        self.target = target

    def pointers(self, prefix: str = "", token: str | None = None, limit: int = 1_000) -> PointersPage:
        query: Query = [("limit", limit)]
        query += [("prefix", prefix)] if prefix else []
        query += [("token", token)] if token else []
        return self.get("pointers", query, PointersPage)

    def all_pointers(self, prefix: str = "") -> Iterator[PointerInfo]:
        page = self.pointers(prefix)
        yield from page.pointers
        while page.next_token is not None:
            page = self.pointers(prefix, page.next_token)
            yield from page.pointers

    def state(self, pointer: str, at: str = "latest", token: str | None = None) -> StatePage:
        query: Query = [("token", token)] if token else [("pointer", pointer), ("at", at)]
        return self.get("snapshot", query, StatePage)

    def state_entries(self, page: StatePage) -> Iterator[SnapshotEntry]:
        """Items of that page and all following ones, which are of the same state."""
        yield from page.entries
        while page.next_token is not None:
            page = self.state(page.pointer, token=page.next_token)
            yield from page.entries

    def find_commit(self, id: str) -> Change:
        return self.get(f"commits/{id}", [], Change)

    def commit(self, path: str, body: msgspec.Struct, request_id: str | None) -> CommitAnswer:
        """⚠ Sent again under the same key if no response comes, so that it is committed once; an unknown outcome is reported as
        such."""
        key = request_id or uuid.uuid4().hex
        headers = {"idempotency-key": key, "content-type": "application/json"}
        try:
            return self.call("POST", path, CommitAnswer, content=msgspec.json.encode(body), headers=headers)
        except FeedUnreachable as error:
            if error.facts.get("sent") is False:
                raise
            raise CommitOutcomeUnknown(
                f"no answer came: {error.message}",
                remedy="Commit again with the same request id, which is never applied twice.",
                request_id=key,
            ) from error

    def post(self, path: str, body: msgspec.Struct, kind: type[T]) -> T:
        """A query that has a body; it changes nothing."""
        return self.call("POST", path, kind, content=msgspec.json.encode(body), headers={"content-type": "application/json"})

    def call(
        self,
        method: str,
        path: str,
        kind: type[T],
        *,
        query: Query | None = None,
        headers: dict[str, str] | None = None,
        content: bytes | None = None,
    ) -> T:
        """For requests that may be sent twice. A path of the feed, or an address of this server."""
        return self._send(method, path, query or [], kind, headers or {}, content, COMMIT_SECONDS)

    def get(self, path: str, query: Query, kind: type[T], wait_seconds: float = 0.0) -> T:
        return self._send("GET", path, query, kind, {}, None, wait_seconds)

    # ── steps ───────────────────────────────────────────────────────────────────────────────────────────────

    def _send(
        self, method: str, path: str, query: Query, kind: type[T], headers: dict[str, str], content: bytes | None, wait: float
    ) -> T:
        backoff = Backoff(tries_max=CALL_TRIES_MAX)
        may_be_there = False
        while True:
            try:
                return self._once(method, path, query, kind, headers, content, wait)
            except HeadwaterError as error:
                may_be_there = may_be_there or error.facts.get("sent") is not False
                if isinstance(error, FeedUnreachable):
                    error.facts["sent"] = may_be_there
                time.sleep(backoff.after(error))

    def _once(
        self, method: str, path: str, query: Query, kind: type[T], headers: dict[str, str], content: bytes | None, wait: float
    ) -> T:
        try:
            response = self.client.request(
                method,
                path if path.startswith(self.target.server) else self.target.url(path),
                params=query,
                headers=self.target.headers | headers,
                content=content,
                timeout=timeout(wait),
            )
        except httpx.TransportError as error:
            raise unreachable(self.target.server, error) from error
        if not response.is_success:
            raise error_of(response.status_code, response.content, response.headers)
        try:
            found = msgspec.json.decode(response.content or b"null", type=kind)
            if isinstance(found, CommitAnswer) and response.headers.get("idempotency-replayed") == "true":
                return msgspec.structs.replace(found, replayed=True)  # the first response, returned again
            return found
        except msgspec.DecodeError as error:
            raise InvalidInput(
                f"{self.target.server} answers with something else: {error}.", field="url", remedy="Check the address."
            ) from error


def commit_outcome(answer: CommitAnswer) -> CommitResult:
    return CommitResult(returned=answer.change, commit_id=answer.commit_id, seq=answer.seq, replayed=answer.replayed)


# ── operations as JSON ──────────────────────────────────────────────────────────────────────────────────────


def operations_body(operations: Sequence[CatalogOperation]) -> list[dict[str, Any]]:
    """As the server reads them; operations that cannot be valid are refused here already, as in the embedded engine."""
    prepare(operations)
    return [_operation_body(operation) for operation in operations]


def _operation_body(operation: CatalogOperation) -> dict[str, Any]:
    body: dict[str, Any] = {"op": type(operation).__name__.lower(), "key": list(operation.key)}
    if operation.expected is not None:
        expected = to_value(operation.expected)
        body |= {"expected": expected.value, "expected_type": expected.type}
    if operation.expected_content_id is not None:
        body["expected_content_id"] = operation.expected_content_id
    match operation:
        case Put():
            body |= _content_body(operation.content)
            body |= {"content_id": operation.content_id} if operation.content_id is not None else {}
            body |= {"must_not_exist": True} if operation.must_not_exist else {}
        case Unchanged():
            body |= {"must_not_exist": True} if operation.must_not_exist else {}
        case Rename():
            body["from_key"] = list(operation.from_key)
        case Delete():
            pass
    return body


def _content_body(content: AnyContent) -> dict[str, Any]:
    value = to_value(content)
    return {"type": value.type, "content": value.value}
