"""Pins the entries that merges between live branches still need.

⚠ A live branch pins its merge base. That is the newest of: the commit it was created or assigned from, what it last merged from
there, and what was last merged back. The entry that leads there (the create, assign or merge) is pinned with it. If the base's
pointer is gone, or has started over since, it is followed further, to the next pointer that is still live.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from headwater.persistence.log.log_entry import CommitPlace, LogRecord
from headwater.persistence.log.log_walk import LogWalk
from headwater.schemas.change import Kind
from headwater.schemas.entry_ids import EMPTY
from headwater.schemas.errors import ObjectNotFound

HOPS_MAX = 1_000
MERGES_MAX = 10_000
"""How many merges of one pointer are examined, newest first."""


class Needed(NamedTuple):
    """The floor of `pointer` may not pass `seq`, because `branch` needs it."""

    pointer: str
    seq: int
    branch: str


class Merge(NamedTuple):
    seq: int
    source: CommitPlace


class BranchPins:
    def __init__(self, walk: LogWalk, heads: Mapping[str, LogRecord], floors: Mapping[str, int]) -> None:
        self._walk = walk
        self._heads = heads
        self._floors = floors
        self._merges: dict[str, list[Merge]] = {}

    def all(self) -> Iterator[Needed]:
        for pointer, head in self._heads.items():
            if "/heads/" in pointer and head.entry.kind is not Kind.DELETE:
                for name, seq in self._needs(pointer, head):
                    yield Needed(name, seq, pointer)

    def _needs(self, pointer: str, head: LogRecord) -> list[tuple[str, int]]:
        path = self._path(head)
        if path is None:
            return []
        needs, target = path
        newest, newest_time = needs, target.entry.time
        if len(needs) == 2:  # direct neighbours may have merged since
            other = target.entry.pointer
            for link, shared in (
                self._newest_merge(pointer, other, target.entry.segment_seq),
                self._newest_merge(other, pointer, head.entry.segment_seq),
            ):
                if shared is not None and shared.time > newest_time:
                    newest, newest_time = link, shared.time
        return newest

    def _path(self, head: LogRecord) -> tuple[list[tuple[str, int]], LogRecord] | None:
        """The states from the branch to the commit that it came from, as far as they are still live; None if there is no such
        commit or it is gone."""
        needs: list[tuple[str, int]] = []
        here = head
        for _ in range(HOPS_MAX):
            pointer, start_seq = here.entry.pointer, here.entry.segment_seq
            if not start_seq or start_seq < self._floors.get(pointer, 1):
                return None
            try:
                start = self._walk.at(here, start_seq)
                if start.entry.base is None or start.commit == EMPTY:
                    return None
                commit = self._walk.header(start.commit)
            except ObjectNotFound:
                return None
            needs += [(pointer, start_seq), (commit.entry.pointer, commit.entry.seq)]
            if self._lives(commit):
                return needs, commit
            here = commit
        return None

    def _lives(self, commit: LogRecord) -> bool:
        head = self._heads.get(commit.entry.pointer)
        return head is not None and head.entry.kind is not Kind.DELETE and head.entry.segment_seq == commit.entry.segment_seq

    def _newest_merge(self, into: str, source: str, segment_seq: int) -> tuple[list[tuple[str, int]], CommitPlace | None]:
        for merge in self._merges_of(into):
            if merge.source.pointer == source and merge.source.segment_seq == segment_seq:
                return [(into, merge.seq), (source, merge.source.seq)], merge.source
        return [], None

    def _merges_of(self, pointer: str) -> list[Merge]:
        if pointer not in self._merges:
            self._merges[pointer] = list(self._read_merges(pointer))
        return self._merges[pointer]

    def _read_merges(self, pointer: str) -> Iterator[Merge]:
        here = self._heads[pointer].entry
        oldest = max(self._floors.get(pointer, 1), here.segment_seq, 1)
        for _ in range(MERGES_MAX):
            if here.kind is Kind.MERGE and here.origin is not None:
                yield Merge(here.seq, here.origin)
            if here.merge_seq < oldest:
                return
            here = self._walk.linked(here.merge_id, here.merge_seq)
