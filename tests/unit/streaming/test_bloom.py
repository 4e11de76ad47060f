"""The filter's hash is its own: one id or many, one worker or several, the same bits are set."""

from __future__ import annotations

import random

import numpy as np
import pytest

from headwater.streaming.retained.bloom import BloomFilter
from headwater.streaming.retained.retained_filter import kept_of

SALT = b"salt" * 4


def some_ids(count: int, seed: int = 1) -> list[int]:
    chance = random.Random(seed)
    return [chance.randrange(2**63) for _ in range(count)]


@pytest.mark.parametrize("capacity", [3, 100, 20_000])
def test_one_by_one_and_many_at_once_set_the_same_bits(capacity: int) -> None:
    ids = some_ids(3_000)
    one, many = BloomFilter(capacity, SALT), BloomFilter(capacity, SALT)
    one.add("r", ids)
    many.add_many("r", np.array(ids, np.int64))
    assert one._field == many._field
    strangers = some_ids(2_000, seed=2)
    assert kept_of(many, "r", strangers) == [one.keeps("r", object_id) for object_id in strangers]
    assert all(kept_of(many, "r", ids))


def test_the_results_of_several_workers_merge_to_the_result_of_one() -> None:
    ids = some_ids(1_000)
    whole, left, right = (BloomFilter(1_000, SALT) for _ in range(3))
    whole.add("r", ids)
    left.add("r", ids[:300])
    right.add_many("r", np.array(ids[300:], np.int64))
    assert left.merge(right)._field == whole._field
    with pytest.raises(ValueError, match="different make"):
        left.merge(BloomFilter(1_000, b"other salt......"))


def test_ids_in_a_row_spare_no_more_strangers_than_promised() -> None:
    bloom = BloomFilter(200_000, SALT)
    bloom.add_many("r", np.arange(200_000))
    assert bloom.measured_false_positives() < 1.5e-5
    assert bloom.keeps_many("r", np.arange(200_000, 2_200_000)).sum() < 60
