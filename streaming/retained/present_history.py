"""Finds which entries that do not directly follow the retained set are in the store's log now.

A topic may hold a history that the store has lost, before or among the current one. ⚠ Only the store decides which entries
belong to it. A set that ends in an entry that the store has lost belongs to another history itself, and is seeded again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice

from headwater.persistence.backend import Backend
from headwater.persistence.log.log_walk import LogWalk
from headwater.schemas.entry_ids import object_id_of
from headwater.schemas.errors import RetainedIncomplete
from headwater.streaming.reachability.retained_identifiers import ENTRIES_PER_PAGE
from headwater.streaming.reachability.same_history import leads_to, other_history, walk_of
from headwater.streaming.reachability.segments import SegmentPosition

IDS_PER_READ = 1_000

EntryKey = tuple[str, int, str]
"""Pointer, seq, entry id."""


def pointers_of_lost_entries(backend: Backend, realm: str, entry_ids: Mapping[str, str]) -> set[str]:
    """Given an entry for each pointer, the pointers whose entry is not in the store: a restore removed it."""
    lost: set[str] = set()
    waiting = iter(entry_ids.items())
    while page := dict(islice(waiting, IDS_PER_READ)):
        object_ids = {pointer: object_id_of(bytes.fromhex(entry_id)) for pointer, entry_id in page.items()}
        there = backend.fetch_objects(realm, list(object_ids.values()))
        lost |= {pointer for pointer, object_id in object_ids.items() if object_id not in there}
    return lost


def present_entries(
    backend: Backend, realm: str, lasts: dict[str, int], positions: dict[str, SegmentPosition]
) -> Iterator[EntryKey]:
    """The entries of each pointer after the set's position, up to the given seq or the head. None for a pointer that was
    purged."""
    walk = walk_of(backend, realm)
    for pointer, last in lasts.items():
        yield from _of_pointer(backend, realm, walk, pointer, last, positions.get(pointer))


def _of_pointer(
    backend: Backend, realm: str, walk: LogWalk, pointer: str, last: int, known: SegmentPosition | None
) -> Iterator[EntryKey]:
    row = backend.read_pointer(realm, pointer)
    if row is None or not row.head:
        return
    if known is not None and not leads_to(walk, row.head.hex(), known.seq, known.entry_id):
        raise other_history(pointer, known.seq)
    first = 1 if known is None else known.seq + 1
    if first < row.floor:
        raise RetainedIncomplete(
            f"{pointer}: entries {first} to {row.floor - 1} are cut, and the set does not know them.",
            field="retained",
            remedy="Seed the set again: `headwater maintain retained --reseed`.",
            pointer=pointer,
        )
    newest = walk.load(row.head)
    for start in range(first, min(last, row.seq) + 1, ENTRIES_PER_PAGE):
        for logged in walk.between(newest, start, min(start + ENTRIES_PER_PAGE - 1, last, row.seq)):
            yield pointer, logged.entry.seq, logged.entry_id.hex()
