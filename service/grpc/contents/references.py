"""Resolves what a message names by id or by name to a catalog and a path.

⚠ An id has to be looked up before a right can be checked. So an id that is not there, and one that the caller may not list, are
one and the same NOT_FOUND.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from headwater.persistence.log.log_entry import LogRecord
from headwater.persistence.rows import SYSTEM_REALM
from headwater.producer.catalogs.catalogs import Catalogs
from headwater.producer.content.snapshots import ContentEntry, Snapshots
from headwater.schemas.change import KeyPath
from headwater.schemas.errors import (
    CatalogNotFound,
    HeadwaterError,
    InvalidInput,
    NamespaceNotFound,
    NotFound,
    TableNotFound,
    ViewNotFound,
)
from headwater.schemas.rpc import common_pb2
from headwater.service.auth.rights.rights import Right, Securable
from headwater.service.grpc.messages.message_fields import NAMESPACE, TABLE, VIEW, canonical_level, catalog_name
from headwater.service.grpc.rpc import RpcCall
from headwater.service.operations.realm_feeds import RealmFeed

KINDS: dict[Any, tuple[str, Right, type[HeadwaterError], str]] = {
    NAMESPACE: ("NAMESPACE", Right.NAMESPACE_LIST, NamespaceNotFound, "namespace"),
    TABLE: ("ICEBERG_TABLE", Right.TABLE_LIST, TableNotFound, "table"),
    VIEW: ("ICEBERG_VIEW", Right.VIEW_LIST, ViewNotFound, "view"),
}


class Named(NamedTuple):
    catalog: str
    key: KeyPath
    content_id: str = ""
    """Known where it was asked for by id."""


async def named(call: RpcCall, ref: Any, reference: str, kind: Any, field: str) -> Named:
    match ref.WhichOneof("target"):
        case "name":
            if not ref.name.path or not all(ref.name.path):
                raise InvalidInput("it is empty, or one of its levels is.", field=f"{field}.name.path", remedy="Name it.")
            catalog = catalog_name(ref.name.catalog, f"{field}.name.catalog")
            return Named(catalog, (await stored_names(call, catalog, [tuple(ref.name.path)], reference, kind))[0])
        case "id":
            return await by_id(call, ref.id, reference, kind, f"{field}.id")
        case _:
            raise InvalidInput("neither an id nor a name.", field=field, remedy="Send one of them.")


async def stored_names(call: RpcCall, catalog: str, asked: Sequence[KeyPath], reference: str, kind: Any) -> list[KeyPath]:
    """Names as they are stored: what is there exactly as it was asked for, else the canonical form, in which names are created.

    ⚠ Looked at before a right is checked: only where the caller may list what is there. Others get the canonical form.
    """
    canonical = [tuple(canonical_level(level) or level for level in path) for path in asked]
    doubtful = [path for path, form in zip(asked, canonical, strict=True) if path != form]
    if not doubtful:
        return canonical
    right, feed, access = KINDS[kind][1], await realm_of(call), call.runtime.service.access
    listed = [path for path in doubtful if await access.allows(call.caller, right, Securable(catalog, path))]

    def there() -> Mapping[KeyPath, ContentEntry]:
        found = Catalogs(feed.kernel).get(catalog)
        references = Catalogs(feed.kernel).references(found)
        at = references.resolve(reference or found.default_branch, field="reference").logged
        return Snapshots(feed.kernel, found.id).get(at, listed)

    try:
        exact = await asyncio.to_thread(there) if listed else {}
    except NotFound:
        exact = {}  # the error is raised later, to callers that may see it
    return [path if path in exact else form for path, form in zip(asked, canonical, strict=True)]


async def by_id(call: RpcCall, id: common_pb2.ResourceId, reference: str, kind: Any, field: str) -> Named:
    type_name, right, missing, word = KINDS[kind]
    if id.kind not in (kind, common_pb2.RESOURCE_KIND_UNSPECIFIED):
        raise InvalidInput(f"it is not the id of a {word}.", field=f"{field}.kind", remedy=f"Send the id of a {word}.")
    if not id.id:
        raise InvalidInput("it is empty.", field=f"{field}.id", remedy="Send the id as received.")
    gone = missing(f"there is no {word} with the id {id.id[:80]!r}.", field=field, remedy="Resolve its name again.")
    feed = await realm_of(call)
    if id.realm and id.realm != call.caller.realm:
        raise gone
    catalog = await asyncio.to_thread(feed.read_catalog_name, id.catalog_id)
    if catalog is None:
        raise gone
    if not await call.runtime.service.access.allows_somewhere_async(call.caller, right, catalog):
        raise gone
    state = await asyncio.to_thread(_state, call, feed, catalog, reference, id.id.lower())
    entry = state.entry or await call.runtime.directories.find(feed.kernel, state.catalog_id, state.at, id.id.lower())
    if entry is None or entry.type != type_name:
        raise gone
    if not await call.runtime.service.access.allows(call.caller, right, Securable(catalog, entry.key)):
        raise gone
    return Named(catalog, entry.key, entry.content_id)


async def realm_of(call: RpcCall) -> RealmFeed:
    if call.caller.realm == SYSTEM_REALM:
        raise InvalidInput("the system realm has no catalogs.", field="realm", remedy="Name another realm.")
    return await call.runtime.service.realm(call.caller.realm)


class _State(NamedTuple):
    catalog_id: int
    at: LogRecord
    entry: ContentEntry | None
    """Under the id, if its key is known."""


def _state(call: RpcCall, feed: RealmFeed, catalog: str, reference: str, id: str) -> _State:
    read = Catalogs(feed.kernel).get(catalog)
    at = Catalogs(feed.kernel).references(read).resolve(reference or read.default_branch, field="reference").logged
    return _State(read.id, at, call.runtime.directories.known(feed.kernel, read.id, at, id))


async def catalog_id(call: RpcCall, name: str) -> int:
    """Id of a catalog that was read a moment ago."""
    feed = await realm_of(call)
    return known_catalog_id(feed, name) or (await asyncio.to_thread(feed.read_catalog, name)).id


def known_catalog_id(feed: RealmFeed, name: str) -> int | None:
    known = feed.known_catalog(name)
    return None if known is None else known.id


def no_catalog(id: int) -> CatalogNotFound:
    return CatalogNotFound(f"there is no catalog with the id {id}.", field="resource_id", remedy="List the catalogs.")
