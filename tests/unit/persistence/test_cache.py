"""The object cache: bounded by bytes, counts hits and misses, never knows that something is absent."""

from __future__ import annotations

import random
import threading

from hypothesis import given
from hypothesis import strategies as st

from headwater.persistence.objects.cache import ENTRY_BYTES, ObjectCache


def test_an_object_is_found_again_under_its_realm_and_id_only() -> None:
    cache: ObjectCache[str] = ObjectCache(10_000)
    cache.put("a", 1, "one", 3)
    assert cache.get("a", 1) == "one"
    assert cache.get("b", 1) is None
    assert cache.get("a", 2) is None
    assert (cache.hits, cache.misses) == (1, 2)


def test_an_absent_object_is_found_as_soon_as_it_is_put() -> None:
    cache: ObjectCache[str] = ObjectCache(10_000)
    assert cache.get_many("a", [1, 2]) == {}
    cache.put("a", 1, "one", 3)
    assert cache.get_many("a", [1, 2]) == {1: "one"}
    assert (cache.hits, cache.misses) == (1, 3)


def test_the_least_recently_used_goes_first() -> None:
    cache: ObjectCache[str] = ObjectCache(3 * (100 + ENTRY_BYTES))
    for n in (1, 2, 3):
        cache.put("a", n, str(n), 100)
    cache.get("a", 1)
    cache.put("a", 4, "4", 100)
    assert cache.get_many("a", [1, 2, 3, 4]) == {1: "1", 3: "3", 4: "4"}


def test_an_object_larger_than_the_cache_is_not_cached_and_evicts_nothing() -> None:
    cache: ObjectCache[str] = ObjectCache(1_000)
    cache.put("a", 1, "one", 100)
    cache.put("a", 2, "big", 1_000)
    assert cache.get_many("a", [1, 2]) == {1: "one"}


def test_zero_bytes_switch_it_off() -> None:
    cache: ObjectCache[str] = ObjectCache(0)
    cache.put("a", 1, "", 0)
    assert cache.get("a", 1) is None
    assert len(cache) == cache.bytes_used == 0


def test_clear_forgets_entries_and_keeps_counts() -> None:
    cache: ObjectCache[str] = ObjectCache(1_000)
    cache.put("a", 1, "one", 1)
    cache.get("a", 1)
    cache.clear()
    assert cache.get("a", 1) is None
    assert (len(cache), cache.bytes_used, cache.hits, cache.misses) == (0, 0, 1, 1)


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 900)), max_size=60), st.integers(0, 5_000))
def test_the_bound_holds_after_every_put(puts: list[tuple[int, int]], bytes_max: int) -> None:
    cache: ObjectCache[int] = ObjectCache(bytes_max)
    weights: dict[int, int] = {}
    for key, weight in puts:
        cache.put("a", key, weight, weight)
        weights[key] = weight
        kept = cache.get_many("a", range(9))
        assert all(weights[kept_key] == value for kept_key, value in kept.items())
        assert cache.bytes_used == sum(weights[kept_key] + ENTRY_BYTES for kept_key in kept) <= bytes_max


def test_threads_keep_its_accounts_right() -> None:
    cache: ObjectCache[int] = ObjectCache(20 * (50 + ENTRY_BYTES))
    wrong: list[object] = []

    def work(seed: int) -> None:
        rng = random.Random(seed)
        for _ in range(3_000):
            key = rng.randrange(60)
            found = cache.get("a", key)
            if found not in (None, key):
                wrong.append(found)
            cache.put("a", key, key, rng.randrange(100))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert cache.hits + cache.misses == 12_000
    assert cache.bytes_used <= cache.bytes_max
    cache.bytes_max = 0
    cache.put("a", 99, 99, 0)
    for key in range(60):
        cache.put("a", key, key, 0)
    assert (len(cache), cache.bytes_used) == (0, 0), "replacing every entry by nothing must bring the account to zero"
