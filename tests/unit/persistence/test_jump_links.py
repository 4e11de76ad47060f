"""Jump links against Myers' skew-binary ones, and the reads that a walk takes along them."""

from __future__ import annotations

import math
import random
from typing import TypeVar

import msgspec
import pytest

from headwater.persistence.log.jump_links import NO_LINK, JumpLink, JumpPath
from headwater.persistence.log.log_entry import ENTRY, Entry, LogRecord, id_of
from headwater.persistence.log.log_walk import LogWalk
from headwater.persistence.objects.object_types import ObjectType
from headwater.schemas.change import Kind
from headwater.schemas.errors import ObjectNotFound

T = TypeVar("T", bound=msgspec.Struct)


def myers_jumps(count: int) -> list[int]:
    """By the book, entry 1 being the root: index is the seq, 0 stands for none."""
    jumps = [0, 0]
    for seq in range(2, count + 1):
        before = seq - 1
        once = jumps[before] or 1
        again = jumps[once] or 1
        two_blocks_of_one_size = before - once == once - again and before != once
        jumps.append(again if two_blocks_of_one_size else before)
    return jumps


def spine_jumps(count: int, *, forgets_every: int = 0) -> list[int]:
    """`forgets_every` starts with an empty spine again, as another process does."""
    links, spine, head = [NO_LINK], JumpPath(), NO_LINK
    for seq in range(1, count + 1):
        if forgets_every and seq % forgets_every == 0:
            spine = JumpPath()
        jump, spine = spine.next(head, lambda link: links[link.seq])
        head = JumpLink(seq, seq)
        spine = spine.starting_at(head)
        links.append(jump)
    return [link.seq for link in links]


def test_the_jump_path_is_myers_skew_binary_one() -> None:
    assert spine_jumps(20_000) == myers_jumps(20_000)


@pytest.mark.parametrize("forgets_every", [1, 2, 7])
def test_a_spine_that_starts_anywhere_makes_the_same_jumps(forgets_every: int) -> None:
    assert spine_jumps(3_000, forgets_every=forgets_every) == myers_jumps(3_000)


class SyntheticLog:
    """Entries made on demand by their links alone; counts what a walk reads. Whole states begin at `embeds`."""

    def __init__(self, count: int, *, embeds_every: int, floor: int = 1) -> None:
        self.count, self.floor, self.reads = count, floor, 0
        self._jumps = myers_jumps(count)
        self._embeds_every = embeds_every

    def fetch(self, object_type: ObjectType[T], object_id: int) -> T:
        assert object_type is ENTRY
        if object_id < self.floor:
            raise ObjectNotFound(f"{object_id} was swept")
        self.reads += 1
        return self.entry(object_id)  # type: ignore[return-value]

    def entry_id_known(self, object_id: int) -> bytes:
        return b""

    def know_entry_id(self, object_id: int, entry_id: bytes) -> None:
        pass

    def entry(self, seq: int) -> Entry:
        last_embed = max((seq - 1) // self._embeds_every * self._embeds_every, 1)
        return Entry(
            pointer="p", seq=seq, kind=Kind.COMMIT, previous=b"", commit=b"", parent=b"", head_before=b"", time=seq * 10,
            author="", message="", headers={}, request_id="", operations=(), index_added=(), index_released=(), levels=(),
            embeds=seq % self._embeds_every == 0, back=tuple(range(last_embed, seq)), tail_length=0,
            jump_id=self._jumps[seq], jump_seq=self._jumps[seq],
        )  # fmt: skip

    def newest(self) -> LogRecord:
        return LogRecord(id_of(self.entry(self.count), self.count), self.entry(self.count))


@pytest.mark.parametrize("embeds_every", [1, 2, 5, 24])
@pytest.mark.parametrize("count", [10, 1_000, 65_535, 100_000])
def test_any_entry_is_a_logarithm_of_reads_away(count: int, embeds_every: int) -> None:
    log = SyntheticLog(count, embeds_every=embeds_every)
    walk, newest, chance = LogWalk(log), log.newest(), random.Random(count)  # type: ignore[arg-type]
    reads_max = 0
    for seq in {1, 2, count // 2, count - 1, *(chance.randint(1, count) for _ in range(400))}:
        log.reads = 0
        assert walk.at(newest, seq).entry.seq == seq
        reads_max = max(reads_max, log.reads)
    assert reads_max <= 2 * math.log2(count) + 6


def test_the_entry_after_a_time_is_found_in_a_logarithmic_number_of_reads() -> None:
    log = SyntheticLog(100_000, embeds_every=24)
    walk, newest, chance = LogWalk(log), log.newest(), random.Random(1)  # type: ignore[arg-type]
    for seq in (1, 2, 99_999, 100_000, *(chance.randint(1, 100_000) for _ in range(200))):
        log.reads = 0
        assert walk.first_after(newest, seq * 10 - 1, 1) == seq
        assert walk.first_after(newest, seq * 10, 1) == seq + 1
        assert log.reads <= 2 * (4 * math.log2(100_000) + 6)


def test_a_walk_never_reads_below_the_entry_it_looks_for() -> None:
    log = SyntheticLog(5_000, embeds_every=24, floor=1_234)
    walk = LogWalk(log)  # type: ignore[arg-type]
    for seq in range(1_234, 5_001, 7):
        assert walk.at(log.newest(), seq).entry.seq == seq
    assert walk.first_after(log.newest(), 0, 1_234) == 1_234
