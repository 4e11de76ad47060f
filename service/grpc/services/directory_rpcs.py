"""DirectoryService: names to ids and ids to names. What the caller may not list is not there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from headwater.producer.catalogs.catalogs import Catalogs
from headwater.producer.content.snapshots import ContentEntry, Snapshots
from headwater.schemas.change import KeyPath
from headwater.schemas.errors import CatalogNotFound, InvalidInput
from headwater.schemas.rpc import common_pb2, directory_pb2
from headwater.service.auth.rights.rights import Right, Securable
from headwater.service.feed.call import FeedCall
from headwater.service.feed.feed_routes import FEED
from headwater.service.gate.route import Needs, Route
from headwater.service.grpc.contents.references import KINDS, by_id, no_catalog, realm_of, stored_names
from headwater.service.grpc.messages.message_fields import CATALOG, NAMESPACE, TABLE, VIEW, catalog_name, resource_id
from headwater.service.grpc.rpc import Bound, Rpc, RpcCall
from headwater.service.http.responses import Response

SERVICE = "io.headwater.catalog.v1.DirectoryService"
NAMES_MAX = 1_000


def _unused(request: FeedCall) -> Response:
    raise LookupError("the directory has no HTTP sibling")


_LISTED = Route(
    "POST",
    f"{FEED}/directory",
    "Names and ids.",
    _unused,
    Needs(right=Right.CATALOG_LIST, where="each name, or the right to list what it is", is_filtered=True),
)
"""gRPC only: it is in no HTTP table."""


def _bound(call: RpcCall) -> Bound:
    return Bound(route=_LISTED)


async def _entries(
    call: RpcCall, catalog: str, keys: Sequence[KeyPath], reference: str, kind: Any
) -> tuple[int, dict[KeyPath, ContentEntry]]:
    """What stands at the keys, as far as the caller may list it."""
    type_name, right, _, _ = KINDS[kind]
    feed, access = await realm_of(call), call.runtime.service.access
    allowed = [key for key in keys if await access.allows(call.caller, right, Securable(catalog, key))]
    if not allowed:
        return 0, {}

    def read() -> tuple[int, dict[KeyPath, ContentEntry]]:
        found = Catalogs(feed.kernel).get(catalog)
        references = Catalogs(feed.kernel).references(found)
        at = references.resolve(reference or found.default_branch, field="reference").logged
        return found.id, Snapshots(feed.kernel, found.id).get(at, allowed)

    try:
        number, there = await asyncio.to_thread(read)
    except CatalogNotFound:
        return 0, {}
    return number, {key: entry for key, entry in there.items() if entry.type == type_name}


def _resolve(kind: Any, response: Callable[..., Any]) -> Callable[[RpcCall, Any], Any]:
    async def answer(call: RpcCall, request: Any) -> Any:
        name = call.message.name
        if not name.path or not all(name.path):
            raise InvalidInput("it is empty, or one of its levels is.", field="name.path", remedy="Name it.")
        catalog = catalog_name(name.catalog, "name.catalog")
        [key] = await stored_names(call, catalog, [tuple(name.path)], call.message.reference, kind)
        number, there = await _entries(call, catalog, [key], call.message.reference, kind)
        if key not in there:
            _, _, missing, word = KINDS[kind]
            raise missing(f"there is no {word} {'.'.join(key)!r}.", field="name", remedy=f"List the {word}s.")
        return response(resource_id=resource_id(call, kind, number, there[key].content_id))

    return answer


def _resolve_many(kind: Any, response: Callable[..., Any], field: str) -> Callable[[RpcCall, Any], Any]:
    async def answer(call: RpcCall, request: Any) -> Any:
        names = call.message.names
        if not 1 <= len(names) <= NAMES_MAX:
            raise InvalidInput(f"{len(names)} names.", field="names", remedy=f"Send 1 to {NAMES_MAX}.")
        catalog = catalog_name(names[0].catalog, "names[0].catalog")
        if any(one.catalog != catalog for one in names):
            raise InvalidInput("they are of several catalogs.", field="names", remedy="Ask for each catalog by itself.")
        if any(not one.path or not all(one.path) for one in names):
            raise InvalidInput("a name is empty, or one of its levels is.", field="names", remedy="Name every level.")
        asked = [tuple(one.path) for one in names]
        keys = list(dict.fromkeys(await stored_names(call, catalog, asked, call.message.reference, kind)))
        number, there = await _entries(call, catalog, keys, call.message.reference, kind)
        found = [
            directory_pb2.Resolved(
                name=common_pb2.Name(catalog=catalog, path=key),
                resource_id=resource_id(call, kind, number, there[key].content_id),
            )
            for key in keys
            if key in there
        ]
        return response(**{field: found})

    return answer


def _lookup(kind: Any, response: Callable[..., Any]) -> Callable[[RpcCall, Any], Any]:
    async def answer(call: RpcCall, request: Any) -> Any:
        found = await by_id(call, call.message.resource_id, call.message.reference, kind, "resource_id")
        return response(name=common_pb2.Name(catalog=found.catalog, path=found.key))

    return answer


async def _resolve_catalog(call: RpcCall, request: Any) -> directory_pb2.ResolveCatalogResponse:
    name, feed = catalog_name(call.message.name), await realm_of(call)
    gone = CatalogNotFound(f"there is no catalog {name[:80]!r}.", field="name", remedy="List the catalogs.")
    if not await call.runtime.service.access.allows_somewhere_async(call.caller, Right.CATALOG_LIST, name):
        raise gone
    try:
        known = feed.known_catalog(name)
        found = known if known is not None else await asyncio.to_thread(feed.read_catalog, name)
    except CatalogNotFound:
        raise gone from None
    return directory_pb2.ResolveCatalogResponse(resource_id=resource_id(call, CATALOG, found.id))


async def _lookup_catalog(call: RpcCall, request: Any) -> directory_pb2.LookupCatalogResponse:
    id, feed = call.message.resource_id, await realm_of(call)
    if id.kind not in (CATALOG, common_pb2.RESOURCE_KIND_UNSPECIFIED):
        raise InvalidInput("it is not the id of a catalog.", field="resource_id.kind", remedy="Send the id of a catalog.")
    if id.realm and id.realm != call.caller.realm:
        raise no_catalog(id.catalog_id)
    name = await asyncio.to_thread(feed.read_catalog_name, id.catalog_id)
    access = call.runtime.service.access
    if name is None or not await access.allows_somewhere_async(call.caller, Right.CATALOG_LIST, name):
        raise no_catalog(id.catalog_id)
    return directory_pb2.LookupCatalogResponse(name=name)


_ANSWERS: dict[str, Callable[[RpcCall, Any], Any]] = {
    "ResolveCatalog": _resolve_catalog,
    "ResolveNamespace": _resolve(NAMESPACE, directory_pb2.ResolveNamespaceResponse),
    "ResolveTable": _resolve(TABLE, directory_pb2.ResolveTableResponse),
    "ResolveView": _resolve(VIEW, directory_pb2.ResolveViewResponse),
    "ResolveFQTables": _resolve_many(TABLE, directory_pb2.ResolveFQTablesResponse, "tables"),
    "ResolveFQViews": _resolve_many(VIEW, directory_pb2.ResolveFQViewsResponse, "views"),
    "LookupCatalog": _lookup_catalog,
    "LookupNamespace": _lookup(NAMESPACE, directory_pb2.LookupNamespaceResponse),
    "LookupTable": _lookup(TABLE, directory_pb2.LookupTableResponse),
    "LookupView": _lookup(VIEW, directory_pb2.LookupViewResponse),
}


def _rows() -> Iterable[Rpc]:
    for name, answer in _ANSWERS.items():
        yield Rpc(method=f"{SERVICE}/{name}", routes=(_LISTED,), bind=_bound, answer=answer)


ROWS = tuple(_rows())
