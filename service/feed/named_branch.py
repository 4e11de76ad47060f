"""Finds the catalog that a request names, and the pointer of a branch of it."""

from __future__ import annotations

import asyncio

import msgspec

from headwater.producer.catalogs.catalog_records import Catalog
from headwater.producer.pointer_names import branch_pointer, check_reference_name
from headwater.schemas.errors import CatalogNotFound
from headwater.service.auth.feed_view import Viewer
from headwater.service.feed.feed_query import FeedQuery
from headwater.service.operations.realm_feeds import RealmFeed


async def with_pointers(feed: RealmFeed, viewer: Viewer, query: FeedQuery) -> FeedQuery:
    """The query with the pointer in place of the names."""
    if query.catalog is None:
        return query
    pointer = await named_branch(feed, viewer, query.catalog, query.branch)
    return msgspec.structs.replace(query, pointers=(pointer,), catalog=None)


async def named_branch(feed: RealmFeed, viewer: Viewer, catalog: str, branch: str | None) -> str:
    found = await named_catalog(feed, viewer, catalog)
    return branch_pointer(found.id, found.default_branch if branch is None else check_reference_name(branch, "branch"))


async def named_catalog(feed: RealmFeed, viewer: Viewer, catalog: str) -> Catalog:
    """⚠ A catalog that the caller may not see is refused with the very error of one that does not exist."""
    try:
        found = feed.known_catalog(catalog) or await asyncio.to_thread(feed.read_catalog, catalog)
    except CatalogNotFound:
        found = None
    if found is None or not await viewer.may_see_catalog(catalog):
        raise CatalogNotFound(f"there is no catalog {catalog!r}.", field="catalog", remedy="List the catalogs.")
    return found
