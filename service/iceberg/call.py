"""One request under `/iceberg` enters, read whole; its parts leave checked: branch, namespace, names, parameters, body."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Mapping
from functools import cached_property
from typing import TypeVar
from urllib.parse import parse_qsl

import msgspec

from headwater.schemas.change import KeyPath
from headwater.schemas.errors import InvalidInput
from headwater.service.auth.caller import caller_of
from headwater.service.auth.feed_view import Viewer
from headwater.service.http.bodies import decode_body
from headwater.service.http.correlation import correlation_headers
from headwater.service.http.responses import Scope, header
from headwater.service.iceberg.operations.lake_branch import CommitAuthor, LakeBranch
from headwater.service.iceberg.operations.lakes import Lakes
from headwater.service.idempotency.keyed_requests import idempotent_run
from headwater.service.operations.realm_feeds import RealmFeed

LEVELS = "\x1f"
QUERY_BYTES_MAX = 16 * 1024
T = TypeVar("T", bound=msgspec.Struct)

_decoders: dict[type, msgspec.json.Decoder[object]] = {}


class Identifier(msgspec.Struct, frozen=True):
    namespace: list[str]
    name: str

    @property
    def key(self) -> KeyPath:
        return key_of(self.namespace, self.name)


class IcebergCall:
    def __init__(
        self, feed: RealmFeed, lakes: Lakes, scope: Scope, names: Mapping[str, str], body: bytes, viewer: Viewer
    ) -> None:
        self.feed = feed
        self.viewer = viewer
        self.scope = scope
        self.names = names
        self.body = body
        self.lakes = lakes

    @cached_property
    def branch(self) -> LakeBranch:
        return self.lakes.branch(self.feed, self.names["prefix"])

    async def branch_on_loop(self) -> LakeBranch:
        """Without a thread where the catalog is known."""
        known = self.lakes.known_branch(self.feed, self.names["prefix"])
        return known if known is not None else await asyncio.to_thread(lambda: self.branch)

    def branch_of(self, warehouse: str) -> LakeBranch:
        return self.lakes.branch(self.feed, warehouse)

    @property
    def namespace(self) -> KeyPath:
        return namespace_of(self.names["namespace"])

    @property
    def table(self) -> KeyPath:
        return key_of(self.namespace, self.names["table"])

    @property
    def view(self) -> KeyPath:
        return key_of(self.namespace, self.names["view"])

    @cached_property
    def query(self) -> dict[str, str]:
        """Parameters that the specification does not know are ignored, as its clients expect."""
        raw: bytes = self.scope["query_string"]
        try:
            if len(raw) > QUERY_BYTES_MAX:
                raise ValueError("it is too long")
            return dict(parse_qsl(raw.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=100))
        except ValueError as error:
            raise InvalidInput(f"The query cannot be read: {error}.", field="query") from None

    def flag(self, name: str) -> bool:
        value = self.query.get(name, "false").lower()
        if value not in ("true", "false"):
            raise InvalidInput(f"{value[:40]!r} is neither true nor false.", field=name)
        return value == "true"

    def page(self) -> tuple[str | None, int | None]:
        """The token and the size of a listing; a client that sends an empty token wants pages from the beginning on."""
        size = self.query.get("pageSize")
        if size is not None and not (size.isascii() and size.isdecimal() and len(size) < 10):
            raise InvalidInput(f"{size[:40]!r} is no page size.", field="pageSize")
        return self.query.get("pageToken"), None if size is None else int(size)

    def read(self, type: type[T]) -> T:
        if type not in _decoders:
            _decoders[type] = msgspec.json.Decoder(type)
        found: T = decode_body(self.body, _decoders[type])  # type: ignore[assignment]
        return found

    @property
    def caller(self) -> CommitAuthor:
        """⚠ The key is the request id of the commit, so a request whose answer was lost in a crash finds it in the log."""
        runs_under = idempotent_run(self.scope)
        if runs_under is None:
            return CommitAuthor(caller_of(self.scope).name, headers=correlation_headers(self.scope))
        return CommitAuthor(caller_of(self.scope).name, runs_under.request, headers=correlation_headers(self.scope))

    @property
    def connection(self) -> Hashable:
        """Who sends, as far as the socket tells."""
        return tuple(self.scope.get("client") or ())

    def header(self, name: bytes) -> str:
        return (header(self.scope, name) or b"").decode("latin-1")


def namespace_of(text: str) -> KeyPath:
    levels = tuple(text.split(LEVELS))
    if not all(levels):
        raise InvalidInput("A namespace has an empty level.", field="namespace")
    return levels


def key_of(namespace: KeyPath | list[str], name: str) -> KeyPath:
    if not namespace or not all(namespace) or not name:
        raise InvalidInput("A table or view has a namespace and a name, and none of its levels is empty.", field="identifier")
    return (*namespace, name)
