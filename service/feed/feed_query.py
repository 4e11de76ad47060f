"""Parses the query of `changes` and `stream`: pointers, start, filter, bounds."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import msgspec

from headwater.schemas.change import KeyPath, Kind, Op
from headwater.schemas.cursor import After, Cursor, Edge, Position, check_many, parse_after
from headwater.schemas.errors import InvalidInput
from headwater.schemas.filters import NO_FILTER, Filter
from headwater.service.http import parameters
from headwater.service.http.parameters import Parameter, parse_query
from headwater.service.operations.feed_pages import FeedPages

QUERIES_KEPT_MAX = 4_096
KEPT_QUERY_BYTES_MAX = 2_048
LEVELS_MAX = 32


class FeedQuery(msgspec.Struct, frozen=True, kw_only=True):
    pointers: tuple[str, ...]
    """Empty where a catalog is named instead."""
    catalog: str | None = None
    branch: str | None = None
    after: After
    filter: Filter
    limit: int
    wait_seconds: float
    heartbeat_seconds: float | None


def changes_query(query: bytes) -> FeedQuery:
    """Pollers ask the same again and again: what was parsed is kept."""
    return _kept(query) if len(query) <= KEPT_QUERY_BYTES_MAX else _parsed(query, parameters.CHANGES, None)


def stream_query(query: bytes, last_event_id: str | None) -> FeedQuery:
    """⚠ A browser that reconnects sends the old query again: the id of the last event it has seen wins."""
    return _parsed(query, parameters.STREAM, last_event_id)


@lru_cache(maxsize=QUERIES_KEPT_MAX)
def _kept(query: bytes) -> FeedQuery:
    return _parsed(query, parameters.CHANGES, None)


def _parsed(query: bytes, table: tuple[Parameter, ...], last_event_id: str | None) -> FeedQuery:
    given = parse_query(query, table)
    after = parse_after(last_event_id or given["after"] or Edge.EARLIEST)
    cursor = after if isinstance(after, Cursor) else None
    catalog: str | None = named_catalog(given)
    pointers: tuple[str, ...] = given["pointer"] or (() if cursor is None or catalog else tuple(cursor.positions))
    if not pointers and catalog is None:
        raise InvalidInput(
            "pointer: it is missing.",
            field="pointer",
            remedy="Name one or more, or a catalog and a branch, or send a cursor.",
            parameters=[{"name": "pointer", "detail": "it is missing."}],
        )
    check_many(after, len(pointers) or 1)
    return FeedQuery(
        pointers=pointers,
        catalog=catalog,
        branch=given["branch"],
        after=after,
        filter=_filter(given, cursor),
        limit=given.get("limit", 100),
        wait_seconds=float(given.get("wait") or 0.0),
        heartbeat_seconds=given.get("heartbeat"),
    )


def named_catalog(given: Mapping[str, Any]) -> str | None:
    """The catalog whose branch is meant; `InvalidInput` where pointers are named too, or a branch of no catalog."""
    catalog: str | None = given["catalog"]
    if catalog is not None and given["pointer"]:
        raise InvalidInput("a pointer and a catalog are named.", field="catalog", remedy="Name one of the two.")
    if catalog is None and given["branch"] is not None:
        raise InvalidInput("the branch of which catalog?", field="branch", remedy="Name a catalog too.")
    return catalog


def _filter(given: dict[str, Any], cursor: Cursor | None) -> Filter:
    """What is asked for; with a cursor and nothing else, what its reader asked for before."""
    asked = Filter(
        kinds=tuple(Kind(kind) for kind in given["kind"]),
        operations=tuple(Op(op) for op in given["op"]),
        types=given["type"],
        prefix=_levels(given["prefix"]),
        content_ids=tuple(text.lower() for text in given["content_id"]),
    )
    if asked == NO_FILTER and cursor is not None:
        asked = cursor.filter
    return NO_FILTER if asked == NO_FILTER else asked


def _levels(prefix: str | None) -> KeyPath:
    if prefix is None:
        return ()
    levels = tuple(prefix.split("\x1f" if "\x1f" in prefix else "."))
    if len(levels) > LEVELS_MAX or not all(levels):
        raise InvalidInput(
            f"prefix: {prefix[:80]!r} has empty levels or too many.",
            field="prefix",
            remedy=f"Use 1 to {LEVELS_MAX} names, separated by '.' or by %1F.",
            parameters=[{"name": "prefix", "detail": "it has empty levels or too many."}],
        )
    return levels


async def start_positions(pages: FeedPages, query: FeedQuery) -> dict[str, Position]:
    """From memory where that is possible; off the event loop where the store must be asked."""
    positions: dict[str, Position] = {}
    for pointer in query.pointers:
        known = pages.start_from_memory(pointer, query.after)
        positions[pointer] = known if known is not None else await asyncio.to_thread(pages.start, pointer, query.after)
    return positions
