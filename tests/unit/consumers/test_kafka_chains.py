"""Records of a topic are given once and in order; what a topic has lost is said and never passed over."""

from __future__ import annotations

import os

import msgspec
import pytest

from headwater.consumers.clients.chain import Gap
from headwater.consumers.kafka.kafka_chains import KafkaChains
from headwater.consumers.kafka.kafka_positions import PREFIX, TEXT_CHARACTERS_MAX, parse_positions, positions_text
from headwater.schemas.change import Change
from headwater.schemas.cursor import Position
from headwater.schemas.errors import ChainBroken, CursorExpired
from headwater.schemas.kafka_records import FeedRecord, RecordType
from tests.support.models.feed_histories import POINTER, history, seqs

LOG = history(10)
OTHER = history(10, "cat/1/heads/dev")


def record(change: Change, generation: int = 1) -> FeedRecord:
    return FeedRecord(
        type=RecordType.CHANGE, id=change.entry_id, pointer=change.pointer, generation=generation, seq=change.seq, change=change
    )


def control(type: RecordType, seq: int, generation: int = 1) -> FeedRecord:
    return FeedRecord(type=type, id="x", pointer=POINTER, generation=generation, seq=seq)


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
    mixed = [record(change) for pair in zip(LOG, OTHER, strict=True) for change in pair]
    assert take_all(chains, mixed) == [seq for seq in range(1, 11) for _ in range(2)]


def test_a_generation_that_repeats_gives_nothing_twice() -> None:
    records = [control(RecordType.BASELINE, 0), *map(record, LOG[:6])]
    again = [control(RecordType.BASELINE, 0, 2), *(record(change, 2) for change in LOG)]
    assert take_all(KafkaChains(), records + again) == list(range(1, 11))


def test_a_generation_that_goes_on_is_seamless() -> None:
    records = [
        control(RecordType.BASELINE, 0),
        *map(record, LOG[:6]),
        control(RecordType.BASELINE, 6, 2),
        *map(record, LOG[6:]),
    ]
    assert take_all(KafkaChains(), records) == list(range(1, 11))


@pytest.mark.parametrize("missing", [record(LOG[5]), control(RecordType.BASELINE, 5, 2)])
def test_a_hole_in_the_topic_is_a_gap(missing: FeedRecord) -> None:
    with pytest.raises(Gap) as gap:
        take_all(KafkaChains(), [*map(record, LOG[:3]), missing])
    assert (gap.value.from_seq, gap.value.to_seq) == (3, 5)


def test_a_cut_that_the_reader_has_not_passed_is_fatal_and_one_it_has_passed_is_nothing() -> None:
    with pytest.raises(CursorExpired) as expired:
        take_all(KafkaChains(), [*map(record, LOG[:3]), control(RecordType.TRUNCATED, 6)])
    assert expired.value.facts["oldest"] == 7
    assert take_all(KafkaChains(), [*map(record, LOG[:6]), control(RecordType.TRUNCATED, 6), record(LOG[6])]) == list(
        range(1, 8)
    )
    assert take_all(KafkaChains(), [control(RecordType.TRUNCATED, 6), record(LOG[6])]) == [7]


def test_another_history_under_the_same_number_is_broken() -> None:
    chains = KafkaChains()
    take_all(chains, [record(change) for change in LOG[:3]])
    foreign = FeedRecord(
        type=RecordType.CHANGE, id=LOG[5].entry_id, pointer=POINTER, generation=2, seq=4, change=_as_fourth(LOG[5])
    )
    with pytest.raises(ChainBroken):
        take_all(chains, [foreign])


def _as_fourth(change: Change) -> Change:
    return msgspec.structs.replace(change, seq=4)


def test_a_reader_goes_on_from_kept_positions() -> None:
    chains = KafkaChains()
    kept = parse_positions(positions_text({POINTER: Position(4, bytes.fromhex(LOG[3].entry_id))}))
    chains.begin(kept)
    assert take_all(chains, [record(change) for change in LOG[2:]]) == [5, 6, 7, 8, 9, 10]


def test_positions_that_do_not_fit_are_left_out_the_oldest_first() -> None:
    many = {f"cat/1/heads/branch-{number}": Position(number, os.urandom(32)) for number in range(500)}
    text = positions_text(many)
    kept = parse_positions(text)
    assert len(text) <= TEXT_CHARACTERS_MAX and 20 < len(kept) < 500
    assert list(kept.items()) == list(many.items())[-len(kept) :]


@pytest.mark.parametrize("text", ["", "somebody else's", PREFIX, PREFIX + "????", PREFIX + "AAAA"])
def test_what_others_have_written_beside_an_offset_is_no_position(text: str) -> None:
    assert parse_positions(text) == {}
