"""Keyed requests on every database: claimed by one, taken over from the dead, answered as before, and expired in slices."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from headwater.persistence.records.idempotency_rows import (
    BODY_BYTES_MAX,
    ClaimResult,
    IdempotencyRows,
    KeyedRequest,
    StoredResponse,
)
from headwater.persistence.store import RealmKernel, open_store

DAY = 86_400.0


@pytest.fixture
def kernel(store_url: str, realm: str) -> Iterator[RealmKernel]:
    with open_store(store_url) as store:
        yield store.kernel(realm)


def asked(key: str = "k", body: bytes = b"1", principal: str = "ann") -> KeyedRequest:
    return KeyedRequest(principal=principal, key=key, route="POST /x", fingerprint=body)


def test_one_of_many_runs_and_the_others_get_its_answer(kernel: RealmKernel) -> None:
    rows = IdempotencyRows(kernel)

    def claim(number: int) -> ClaimResult:
        return rows.claim(asked(), "r", f"o{number}", running_seconds=60, kept_seconds=DAY)[0]

    with ThreadPoolExecutor(4) as threads:
        verdicts = list(threads.map(claim, range(8)))
    assert sorted(verdict.value for verdict in verdicts) == ["run", *["wait"] * 7]
    assert claim(9) is ClaimResult.WAIT
    assert rows.claim(asked(body=b"2"), "r", "o", running_seconds=60, kept_seconds=DAY)[0] is ClaimResult.OTHER
    assert rows.claim(asked(principal="bob"), "r", "o", running_seconds=60, kept_seconds=DAY)[0] is ClaimResult.RUN


def test_a_dead_claim_is_taken_over_under_its_request_id_and_its_late_answer_changes_nothing(kernel: RealmKernel) -> None:
    rows = IdempotencyRows(kernel)
    verdict, dead = rows.claim(asked(), "first", "o1", running_seconds=0, kept_seconds=DAY)
    assert verdict is ClaimResult.RUN
    verdict, heir = rows.claim(asked(), "second", "o2", running_seconds=60, kept_seconds=DAY)
    assert verdict is ClaimResult.RUN and heir.record.request_id == "first"
    assert not rows.finish(dead, StoredResponse(500, [], b"late"))
    assert rows.finish(heir, StoredResponse(201, [(b"etag", b"1")], b"{}"))
    verdict, found = rows.claim(asked(), "third", "o3", running_seconds=60, kept_seconds=DAY)
    assert verdict is ClaimResult.DONE and found.record.answer == StoredResponse(201, [(b"etag", b"1")], b"{}")


def test_a_released_claim_leaves_the_key_to_the_next_request_and_a_large_response_is_not_stored(kernel: RealmKernel) -> None:
    rows = IdempotencyRows(kernel)
    _, first = rows.claim(asked(), "r", "o1", running_seconds=60, kept_seconds=DAY)
    assert rows.let_go(first)
    verdict, again = rows.claim(asked(), "r", "o2", running_seconds=60, kept_seconds=DAY)
    assert verdict is ClaimResult.RUN
    assert rows.finish(again, StoredResponse(200, [], b"x" * (BODY_BYTES_MAX + 1)))
    verdict, found = rows.claim(asked(), "r", "o3", running_seconds=60, kept_seconds=DAY)
    assert verdict is ClaimResult.DONE and found.record.answer is not None and found.record.answer.body is None


def test_expired_keys_go_in_pages_and_live_ones_stay(kernel: RealmKernel) -> None:
    rows = IdempotencyRows(kernel)
    for number in range(7):
        rows.claim(asked(f"old{number}"), "r", "o", running_seconds=0, kept_seconds=0)
    rows.claim(asked("live"), "r", "o", running_seconds=60, kept_seconds=DAY)
    deleted, after = rows.delete_expired(after="", page=3, batch_max=2)
    assert deleted == 2 and after, "a batch ends at its limit and says where to continue"
    rounds = 1
    while after:
        gone, after = rows.delete_expired(after=after, page=3, batch_max=100)
        deleted, rounds = deleted + gone, rounds + 1
    assert deleted == 7 and rounds < 10
    assert rows.claim(asked("live"), "r", "another", running_seconds=60, kept_seconds=DAY)[0] is ClaimResult.WAIT
    assert rows.claim(asked("old1"), "new", "o", running_seconds=60, kept_seconds=DAY)[1].record.request_id == "new"
