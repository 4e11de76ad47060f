"""Binds the calls that tables and views have in common to the routes of Iceberg REST: list, get, rename, delete."""

from __future__ import annotations

from typing import Any

import msgspec

from headwater.schemas.errors import InvalidInput
from headwater.schemas.rpc import common_pb2
from headwater.service.gate.route import Route
from headwater.service.grpc.contents.iceberg_request import RpcIcebergCall
from headwater.service.grpc.contents.references import Named, named
from headwater.service.grpc.messages.message_fields import canonical_path, prefix, set_outcome, version_of
from headwater.service.grpc.messages.paging import next_token, page_size, page_token
from headwater.service.grpc.rpc import Answer, Bound, RpcCall, joined, sibling
from headwater.service.http.responses import Response
from headwater.service.iceberg.call import Identifier
from headwater.service.iceberg.content_handlers import Renaming
from headwater.service.iceberg.routes import LAKE, NAMESPACE


class ContentRoutes:
    """The routes of tables, or of views."""

    def __init__(self, word: str, type: common_pb2.ResourceKind) -> None:
        """`word` is `table` or `view`, as in the fields of messages and in the names of paths."""
        self._word = word
        self._type = type
        all, one = f"{NAMESPACE}/{word}s", f"{NAMESPACE}/{word}s/{{{word}}}"
        self.list, self.create, self.get = sibling("GET", all), sibling("POST", all), sibling("GET", one)
        self.update, self.delete = sibling("POST", one), sibling("DELETE", one)
        self.rename = sibling("POST", f"{LAKE}/{word}s/rename")

    def bind_list(self, call: RpcCall) -> Bound:
        message, token = call.message, page_token(call)
        query = {"pageSize": str(page_size(message)), "pageToken": token or ""}
        names = {
            "prefix": prefix(message.namespace.catalog, message.reference),
            "namespace": joined(message.namespace.path, "namespace.path"),
        }
        return Bound(route=self.list, names=names, query=query)

    async def bind_get(self, call: RpcCall) -> Bound:
        return await self.bind_one(call, self.get, {})

    async def bind_one(self, call: RpcCall, route: Route, query: dict[str, str]) -> Bound:
        """Binds the content that the message names."""
        found = await named(call, getattr(call.message, self._word), call.message.reference, self._type, self._word)
        version = version_of(call.message) if route is self.delete else None
        return Bound(route=route, names=self.names(call, found), query=query, version=version)

    def new_names(self, call: RpcCall) -> tuple[dict[str, str], str]:
        """The namespace's parameters and the name of a content to create."""
        path = canonical_path(call.message.name.path, "name.path")
        names = self.names(call, Named(call.message.name.catalog, tuple(path)))
        return names, names.pop(self._word)

    def names(self, call: RpcCall, found: Named) -> dict[str, str]:
        if len(found.key) < 2:
            raise InvalidInput(f"a {self._word} has a namespace.", field="path", remedy="Name the namespace too.")
        return {
            "prefix": prefix(found.catalog, call.message.reference),
            "namespace": joined(found.key[:-1], "path"),
            self._word: found.key[-1],
        }

    async def target(self, call: RpcCall) -> Named:
        """The content that an update names."""
        return await named(call, call.message.target, call.message.reference, self._type, "target")

    def bind_rename(self, call: RpcCall, found: Named, paths: frozenset[str]) -> Bound:
        if len(paths) > 1:
            raise InvalidInput("a move is a commit of its own.", field="update_mask", remedy="Name `name` alone.")
        word, name = self._word, getattr(call.message, self._word).name
        wanted = canonical_path(name.path, f"{word}.name.path")
        if len(wanted) < 2 or name.catalog not in ("", found.catalog):
            raise InvalidInput(f"it is no {word} of this catalog.", field=f"{word}.name", remedy="Name a namespace and a name.")
        body = Renaming(Identifier(list(found.key[:-1]), found.key[-1]), Identifier(wanted[:-1], wanted[-1]))
        names = {"prefix": self.names(call, found)["prefix"]}
        return Bound(route=self.rename, names=names, body=body, version=version_of(call.message))

    def answer_deleted(self, shown: type[Any]) -> Answer:
        """The answer of that type to a deletion."""

        async def answer(call: RpcCall, request: RpcIcebergCall) -> Any:
            await request.handle()
            made = shown()
            set_outcome(made.meta, request)
            return made

        return answer

    def fill_page(self, call: RpcCall, request: RpcIcebergCall, response: Response, shown: Any) -> None:
        """Names and the next token."""
        page = msgspec.json.decode(response.body)
        for one in page["identifiers"]:
            path = [*one["namespace"], one["name"]]
            getattr(shown, f"{self._word}s").append(common_pb2.Name(catalog=request.branch_name, path=path))
        shown.page.next_token = next_token(call, page.get("next-page-token"))
