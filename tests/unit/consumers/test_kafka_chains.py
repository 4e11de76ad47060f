"""Records of a topic are given once and in order; neither what a topic has lost nor another history is passed over."""

from __future__ import annotations

import os

import pytest

from headwater.consumers.clients.chain import Gap
from headwater.consumers.kafka.kafka_chains import KafkaChains
from headwater.consumers.kafka.kafka_partition import KafkaPartition
from headwater.consumers.kafka.kafka_positions import (
    PREFIX,
    TEXT_CHARACTERS_MAX,
    KafkaPosition,
    KeptPositions,
    parse_positions,
    positions_text,
)
from headwater.schemas.change import Change
from headwater.schemas.errors import CursorExpired, CursorReset
from headwater.schemas.frame import Frame
from headwater.schemas.kafka_records import FeedRecord, RecordType
from tests.support.models.feed_histories import POINTER, history, seqs
from tests.support.models.feed_records import anew, change_record, control, going_on, replaced

LOG = history(10)
OTHER = history(10, "cat/1/heads/dev")
COMMON = 4
"""Entries that the log and the one that replaced it share."""


def take_all(chains: KafkaChains, records: list[FeedRecord]) -> list[int]:
    found: list[Change] = []
    for one in records:
        gap = chains.missing(one)
        if gap is not None:
            raise gap
        found += chains.take(one, one.change)
    return seqs(found)


def test_pointers_are_checked_by_themselves() -> None:
    chains = KafkaChains()
    mixed = [change_record(change) for pair in zip(LOG, OTHER, strict=True) for change in pair]
    assert take_all(chains, mixed) == [seq for seq in range(1, 11) for _ in range(2)]


def test_a_generation_that_repeats_gives_nothing_twice() -> None:
    assert take_all(KafkaChains(), [*anew(1, LOG[:6]), *anew(2, LOG)]) == list(range(1, 11))


def test_a_generation_that_continues_is_seamless() -> None:
    records = [*anew(1, LOG[:6]), *going_on(2, LOG, 6)]
    assert take_all(KafkaChains(), records) == list(range(1, 11))


@pytest.mark.parametrize("seen", range(COMMON + 1, 10))
def test_a_replaced_history_that_begins_where_the_reader_stands_is_a_reset(seen: int) -> None:
    with pytest.raises(CursorReset):
        take_all(KafkaChains(), [*anew(1, LOG[:seen]), *anew(2, replaced(LOG, COMMON, 10), seen)])


def test_history_truncated_before_it_was_published_again_is_fatal_to_a_reader_that_has_not_read_it() -> None:
    with pytest.raises(CursorExpired) as expired:
        take_all(KafkaChains(), [*anew(1, LOG[:3]), *anew(2, LOG, 5)])
    assert expired.value.facts["oldest"] == 6
    assert take_all(KafkaChains(), [*anew(1, LOG[:5]), *anew(2, LOG, 5)]) == list(range(1, 11))


@pytest.mark.parametrize("missing", [change_record(LOG[5]), control(RecordType.BASELINE, LOG, 5, 2, continues=1)])
def test_a_hole_in_the_topic_is_a_gap(missing: FeedRecord) -> None:
    with pytest.raises(Gap) as gap:
        take_all(KafkaChains(), [*map(change_record, LOG[:3]), missing])
    assert (gap.value.from_seq, gap.value.to_seq) == (3, 5)


@pytest.mark.parametrize("first", [change_record(LOG[5]), control(RecordType.BASELINE, LOG, 5, 2, continues=1)])
def test_a_pointers_first_record_that_is_not_its_beginning_is_a_gap(first: FeedRecord) -> None:
    with pytest.raises(Gap) as gap:
        take_all(KafkaChains(), [first])
    assert (gap.value.from_seq, gap.value.to_seq) == (0, 5)
    assert KafkaChains().missing(first, may_begin=True) is None
    assert take_all(KafkaChains(), anew(1, LOG, 5)) == [6, 7, 8, 9, 10]  # the log itself begins there


def test_a_gap_that_was_filled_from_the_log_is_followed_by_the_record() -> None:
    chains = KafkaChains()
    late = change_record(LOG[5])
    gap = chains.missing(late)
    assert gap is not None
    frame = Frame(pointer=POINTER, from_seq=gap.from_seq, to_seq=gap.to_seq, changes=tuple(LOG[: gap.to_seq]))
    assert seqs(chains.take_frame(frame)) == [1, 2, 3, 4, 5]
    assert take_all(chains, [late, *map(change_record, LOG[6:])]) == [6, 7, 8, 9, 10]


def test_a_truncation_ahead_of_the_reader_is_fatal_and_one_it_has_passed_is_ignored() -> None:
    with pytest.raises(CursorExpired) as expired:
        take_all(KafkaChains(), [*map(change_record, LOG[:3]), control(RecordType.TRUNCATED, LOG, 6)])
    assert expired.value.facts["oldest"] == 7
    assert take_all(
        KafkaChains(), [*map(change_record, LOG[:6]), control(RecordType.TRUNCATED, LOG, 6), change_record(LOG[6])]
    ) == list(range(1, 8))
    assert take_all(KafkaChains(), [control(RecordType.TRUNCATED, LOG, 6), change_record(LOG[6])]) == [7]


# ── another history ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("seen", range(COMMON + 1, 11))
@pytest.mark.parametrize("length", [COMMON, 6, 10, 14])
def test_a_replaced_history_is_a_reset_however_long_it_is(seen: int, length: int) -> None:
    """⚠ Shorter, as long, or longer than what was seen: its entries are never taken for those that were."""
    chains = KafkaChains()
    take_all(chains, anew(1, LOG[:seen]))
    given: list[int] = []
    with pytest.raises(CursorReset):
        for one in anew(2, replaced(LOG, COMMON, length)):
            given += take_all(chains, [one])
    assert given == []


@pytest.mark.parametrize("seen", range(COMMON + 1))
def test_a_reader_continues_where_both_histories_are_the_same(seen: int) -> None:
    chains = KafkaChains()
    new = replaced(LOG, COMMON, 9)
    take_all(chains, anew(1, LOG[:seen]) if seen else [])
    records = anew(2, new)
    assert seqs([one for each in records for one in chains.take(each, each.change)]) == [one.seq for one in new[seen:]]


@pytest.mark.parametrize("seen", range(1, 11))
@pytest.mark.parametrize("stop", range(12))
def test_a_group_that_was_stopped_within_a_generation_that_starts_over_continues(seen: int, stop: int) -> None:
    again = anew(2, LOG)
    given, resumed = stopped(seen, again[:stop])
    assert seqs(given) + take_all(resumed, again[stop:]) == list(range(1, 11))


@pytest.mark.parametrize("seen", range(COMMON + 1, 11))
@pytest.mark.parametrize("stop", range(1, COMMON + 2))
def test_a_group_that_was_stopped_within_a_replaced_history_is_reset(seen: int, stop: int) -> None:
    again = anew(2, replaced(LOG, COMMON, 14))
    given, resumed = stopped(seen, again[:stop])
    assert seqs(given) == list(range(1, seen + 1))
    with pytest.raises(CursorReset):
        take_all(resumed, again[stop:])


def stopped(seen: int, again: list[FeedRecord]) -> tuple[list[Change], KafkaChains]:
    """What a group was given, and its next reader, which has nothing but the kept text."""
    chains = KafkaChains()
    partition = KafkaPartition(chains, KeptPositions(), is_shared=True, begins_midway=False)
    given: list[Change] = []
    for one in [*anew(1, LOG[:seen]), *again]:
        for change in chains.take(one, one.change):
            given.append(change)
            partition.note_change(change)
        partition.note(0, one)
    resumed = KafkaChains()
    resumed.begin(parse_positions(positions_text(partition.kept())).positions)
    return given, resumed


def test_a_group_whose_generation_lost_its_baseline_gets_an_error_and_skips_nothing() -> None:
    chains = KafkaChains()
    chains.begin({POINTER: KafkaPosition(8, bytes.fromhex(LOG[7].entry_id), 1)})
    with pytest.raises(CursorReset, match="baseline"):
        take_all(chains, [change_record(replaced(LOG, COMMON, 9)[6], 2)])


def test_a_pointer_that_the_new_history_does_not_have_is_a_reset() -> None:
    chains = KafkaChains()
    take_all(chains, anew(1, LOG))
    with pytest.raises(CursorReset):
        take_all(chains, anew(2, []))


def test_a_new_reader_is_not_given_a_history_that_has_ended() -> None:
    new = replaced(LOG, COMMON, 8)
    assert take_all(KafkaChains(begins=2), [*anew(1, LOG), *anew(2, new)]) == [one.seq for one in new]


def test_records_of_a_replaced_generation_are_dropped_in_every_partition() -> None:
    chains = KafkaChains()
    assert take_all(chains, [*anew(1, LOG[:6]), *anew(2, LOG), *map(change_record, LOG[3:])]) == list(range(1, 11))


def test_a_purged_pointer_ends_and_may_be_created_again() -> None:
    chains = KafkaChains()
    assert take_all(chains, [*anew(1, LOG), control(RecordType.PURGED, LOG, 10), *anew(1, LOG[:2])]) == [*range(1, 11), 1, 2]
    with pytest.raises(CursorExpired, match="purged"):
        take_all(KafkaChains(), [*anew(1, LOG[:8]), control(RecordType.PURGED, LOG, 10)])


def test_a_pointer_that_moved_to_another_topic_is_forgotten() -> None:
    chains = KafkaChains()
    assert take_all(chains, [*anew(1, LOG[:8]), control(RecordType.MOVED, LOG, 10)]) == list(range(1, 9))
    assert chains.reached(LOG[0].pointer) is None


# ── partitions and what is kept of them ─────────────────────────────────────────────────────────────────────


def test_a_topic_that_is_read_from_the_middle_of_a_new_generation_is_noticed() -> None:
    def after(*records: FeedRecord) -> KafkaPartition:
        partition = KafkaPartition(KafkaChains(), KeptPositions(), is_shared=True, begins_midway=False)
        for one in records:
            partition.note(0, one)
        return partition

    first, end = change_record(LOG[0], 1), control(RecordType.END, LOG, 0, 1)
    assert not after().is_jump(change_record(LOG[4], 7))
    assert not after(first).is_jump(change_record(LOG[1], 1))
    assert after(first).is_jump(change_record(LOG[4], 2))
    assert not after(first, end).is_jump(change_record(LOG[4], 2))
    assert after(first, end).is_jump(change_record(LOG[4], 3))
    kept = parse_positions(positions_text(after(first).kept()))
    assert KafkaPartition(KafkaChains(), kept, is_shared=True, begins_midway=False).is_jump(change_record(LOG[4], 2))


def test_a_partition_that_lacks_the_end_of_a_generation_is_read_from_its_beginning_once() -> None:
    """Else the same jump would be met again and again, and nothing behind it ever returned."""
    first, jump = change_record(LOG[0], 1), change_record(LOG[4], 3)
    partition = KafkaPartition(KafkaChains(), KeptPositions(), is_shared=True, begins_midway=False)
    partition.note(0, first)
    assert partition.is_jump(jump)
    partition.begin_again(jump.generation)
    for offset, record in enumerate([first, jump]):
        assert not partition.is_jump(record)
        partition.note(offset, record)
    assert partition.is_jump(change_record(LOG[5], 4)), "the topic was re-created once more"


def test_a_reader_continues_from_saved_positions() -> None:
    chains = KafkaChains()
    position = KafkaPosition(4, bytes.fromhex(LOG[3].entry_id))
    kept = parse_positions(positions_text(KeptPositions(1, False, True, {POINTER: position})))
    assert kept.is_complete
    chains.begin(kept.positions)
    assert take_all(chains, [change_record(change) for change in LOG[2:]]) == [5, 6, 7, 8, 9, 10]


def test_positions_that_do_not_fit_are_left_out_the_oldest_first() -> None:
    many = {f"cat/1/heads/branch-{number}": KafkaPosition(number, os.urandom(32)) for number in range(500)}
    text = positions_text(KeptPositions(1, False, True, many))
    kept = parse_positions(text)
    assert len(text) <= TEXT_CHARACTERS_MAX and 20 < len(kept.positions) < 500 and not kept.is_complete
    assert list(kept.positions.items()) == list(many.items())[-len(kept.positions) :]


@pytest.mark.parametrize("text", ["", "somebody else's", PREFIX, PREFIX + "????", PREFIX + "AAAA"])
def test_foreign_metadata_of_an_offset_is_not_a_position(text: str) -> None:
    kept = parse_positions(text)
    assert kept.positions == {} and not kept.is_complete
