"""Names of pointers, spread over buckets so that no partition grows without bound, and listed in code point order.

Text sorts by its UTF-8 bytes in Cassandra, which is code point order: each bucket is read in order and the heap merges them.
"""

from __future__ import annotations

import heapq
import itertools
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from headwater.persistence.backends.cassandra.calls import Call, Calls, Page, Row

BUCKETS = 16
"""Part of the schema: another number would look for names where they are not."""

_ADD = "INSERT INTO {ks}.names (realm, bucket, name, created_at) VALUES (?, ?, ?, ?)"
_LIST = "SELECT name FROM {ks}.names WHERE realm = ? AND bucket = ?"


def bucket_of(name: str) -> int:
    return zlib.crc32(name.encode()) % BUCKETS


def add_name(calls: Calls, realm: str, name: str) -> None:
    calls.run(calls.write(_ADD, (realm, bucket_of(name), name, calls.clock.now_micros())))


def list_names(calls: Calls, realm: str, *, prefix: str, after: str, limit: int) -> list[str]:
    if after >= prefix:
        cql, bounds = f"{_LIST} AND name > ?", [after]
    else:
        cql, bounds = f"{_LIST} AND name >= ?", [prefix]
    end = end_of_prefix(prefix)
    if end is not None:
        cql, bounds = f"{cql} AND name < ?", [*bounds, end]
    rows = merged(calls, cql, lambda bucket: (realm, bucket, *bounds), limit)
    return [row[0] for row in rows]


def end_of_prefix(prefix: str) -> str | None:
    """The least text that sorts after everything that begins with `prefix`; None if there is none."""
    for at in range(len(prefix) - 1, -1, -1):
        point = ord(prefix[at])
        if point < 0x10FFFF:
            following = 0xE000 if point == 0xD7FF else point + 1  # skip surrogates, which UTF-8 cannot encode
            return prefix[:at] + chr(following)
    return None


def merged(calls: Calls, cql: str, values_of: Callable[[int], Sequence[Any]], limit: int) -> list[Row]:
    """The first `limit` rows of all buckets together, in order of their first column; reads little more than it returns."""
    if limit <= 0:
        return []
    page_rows = 2 * limit // BUCKETS + 16
    reads = [calls.read(cql, values_of(bucket), page_rows=page_rows) for bucket in range(BUCKETS)]
    ordered = [_rows(calls, read, page) for read, page in zip(reads, calls.run_all(reads), strict=True)]
    return list(itertools.islice(heapq.merge(*ordered, key=lambda row: row[0]), limit))


def _rows(calls: Calls, read: Call, first: Page) -> Iterator[Row]:
    for page in calls.pages_after(read, first):
        yield from page.rows
