"""A request under `/iceberg`, its parts checked: branch, namespace, names, parameters, body."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from functools import cached_property

import msgspec

from headwater.schemas.change import KeyPath
from headwater.schemas.errors import InvalidInput
from headwater.service.auth.feed_view import Viewer
from headwater.service.auth.rights.rights import Right, Securable
from headwater.service.gate.request import LEVELS, Request
from headwater.service.http.correlation import correlation_headers
from headwater.service.http.parameters import given_parameters
from headwater.service.iceberg.operations.lake_branch import CommitAuthor, LakeBranch
from headwater.service.iceberg.operations.lakes import Lakes

PREFIX = "/iceberg"


class Identifier(msgspec.Struct, frozen=True):
    namespace: list[str]
    name: str

    @property
    def key(self) -> KeyPath:
        return key_of(self.namespace, self.name)


class IcebergCall(Request):
    refuses_unknown_parameters = False

    @property
    def lakes(self) -> Lakes:
        return self.service.lakes

    @property
    def viewer(self) -> Viewer:
        return Viewer(self.access, self.caller, self.feed)

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
    def query(self) -> dict[str, list[str]]:
        """Parameters that the specification does not know are ignored, as its clients expect."""
        return given_parameters(self.scope["query_string"])

    def text(self, name: str) -> str | None:
        return next(iter(self.query.get(name, ())), None)

    def flag(self, name: str) -> bool:
        value = (self.text(name) or "false").lower()
        if value not in ("true", "false"):
            raise InvalidInput(f"{value[:40]!r} is neither true nor false.", field=name)
        return value == "true"

    def page(self) -> tuple[str | None, int | None]:
        """The token and the size of a listing; a client that sends an empty token wants pages from the beginning on."""
        size = self.text("pageSize")
        if size is not None and not (size.isascii() and size.isdecimal() and len(size) < 10):
            raise InvalidInput(f"{size[:40]!r} is not a page size.", field="pageSize")
        return self.text("pageToken"), None if size is None else int(size)

    @property
    def delegation(self) -> str | None:
        """How the client gets at files of the table: by credentials, by signatures, or neither."""
        return self.lakes.delegation.offers(self.branch, self.header(b"x-iceberg-access-delegation"))

    def may(self, right: Right, key: KeyPath) -> bool:
        """May wait for the store."""
        return self.access.allows_now(self.caller, right, Securable(self.branch.catalog.name, key))

    @property
    def author(self) -> CommitAuthor:
        """⚠ The key is the request id of the commit, so a request whose answer was lost in a crash finds it in the log."""
        key = None if self.run is None else self.run.request
        return CommitAuthor(self.caller.name, key, headers=correlation_headers(self.scope))

    @property
    def connection(self) -> Hashable:
        """The sender, by its socket address."""
        return tuple(self.scope.get("client") or ())


def namespace_of(text: str) -> KeyPath:
    levels = tuple(text.split(LEVELS))
    if not all(levels):
        raise InvalidInput("A namespace has an empty level.", field="namespace")
    return levels


def key_of(namespace: KeyPath | list[str], name: str) -> KeyPath:
    if not namespace or not all(namespace) or not name:
        raise InvalidInput("A table or view has a namespace and a name, and none of its levels is empty.", field="identifier")
    return (*namespace, name)
