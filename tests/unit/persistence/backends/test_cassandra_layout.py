"""Where names and objects lie: buckets, shards and batches, and what settings of a server are worth."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.persistence.backends.cassandra import objects
from headwater.persistence.backends.cassandra.durability import weaknesses
from headwater.persistence.backends.cassandra.names import BUCKETS, bucket_of, end_of_prefix
from headwater.persistence.backends.cassandra.objects import BATCH_BYTES_MAX, BATCH_ROWS_MAX, FETCH_IDS_MAX, by_shard, shard_of
from headwater.persistence.rows import ROW_BYTES_MAX, ObjectRow

TEXT = st.text(st.characters(exclude_categories=["Cs"]))


@given(TEXT, TEXT)
def test_a_prefix_range_ends_right_after_its_last_key(prefix: str, text: str) -> None:
    end = end_of_prefix(prefix)
    assert (prefix <= text and (end is None or text < end)) == text.startswith(prefix)


def test_the_last_code_points_have_an_end_too() -> None:
    assert end_of_prefix("") is None
    assert end_of_prefix(chr(sys.maxunicode)) is None
    assert end_of_prefix("a" + chr(sys.maxunicode)) == "b"
    assert end_of_prefix("\ud7ff") == "\ue000"


def test_a_name_keeps_its_bucket_for_ever() -> None:
    """These are in stores out there: another bucket would lose them."""
    assert [bucket_of(name) for name in ("catalogs", "cat/1/heads/main", "é", "𝔘")] == [10, 1, 14, 0]
    assert {bucket_of(f"name-{n}") for n in range(1_000)} == set(range(BUCKETS))


def test_an_object_keeps_its_shard_for_ever_and_a_shard_holds_few() -> None:
    assert [shard_of(id) for id in (1, 16, 2**63 - 1)] == [0, 1, 2**59 - 1]
    first = 5 << 22 | 7 << 12
    assert len({shard_of(first + n) for n in range(160)}) == 10


def test_a_batch_is_bounded_in_rows_and_bytes_and_loses_nothing() -> None:
    small = [ObjectRow(id, "note", 1, b"x" * 100) for id in range(1_000)]
    big = [ObjectRow(7, "note", 1, b"x" * ROW_BYTES_MAX, part, 3) for part in range(3)]
    middle = [ObjectRow(id, "note", 1, b"x" * 100_000) for id in range(16)]
    for rows in (small, big, middle, [*small, *big, *middle]):
        batches = list(objects._batches(rows))
        assert [row for batch in batches for row in batch] == rows
        assert all(len(batch) <= BATCH_ROWS_MAX for batch in batches)
        assert all(len(batch) == 1 or sum(len(row.payload) for row in batch) <= BATCH_BYTES_MAX for batch in batches)


@given(st.lists(st.integers(1, 2**63 - 1) | st.integers(1, 100), max_size=200))
def test_a_read_covers_each_id_once_and_stays_in_one_partition(ids: list[int]) -> None:
    reads = list(by_shard(ids))
    assert sorted(id for _, some in reads for id in some) == sorted(set(ids))
    assert all(shard_of(id) == shard for shard, some in reads for id in some)
    assert all(len(some) <= FETCH_IDS_MAX for _, some in reads)


GOOD = {"commitlog_sync": "batch", "paxos_variant": "v2", "durable_writes": "true", "replication": "class: SimpleStrategy"}


def test_good_settings_have_no_weakness() -> None:
    assert weaknesses(GOOD) == []
    assert weaknesses(GOOD | {"commitlog_sync": "batch,group"}) == []


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("commitlog_sync", "periodic"),
        ("commitlog_sync", "batch,periodic"),
        ("commitlog_sync", ""),
        ("paxos_variant", "v2_without_linearizable_reads"),
        ("paxos_variant", "v1_without_linearizable_reads_or_rejected_writes"),
        ("durable_writes", "false"),
    ],
)
def test_each_weak_setting_is_named_with_its_remedy(setting: str, value: str) -> None:
    (weakness,) = weaknesses(GOOD | {setting: value})
    assert setting in weakness
    assert "set it to" in weakness


def test_periodic_sync_is_reported_as_not_durable() -> None:
    (weakness,) = weaknesses(GOOD | {"commitlog_sync": "periodic"})
    assert "lost" in weakness
    assert "kill -9" in weakness
