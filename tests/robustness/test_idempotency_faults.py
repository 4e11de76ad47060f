"""Claims of keyed requests whose writes lose their answer or are sent twice: one runs, under one request id."""

from __future__ import annotations

import pytest

from headwater.persistence.backends import open_backend
from headwater.persistence.clock import SystemClock
from headwater.persistence.records.idempotency_rows import ClaimResult, IdempotencyRows, KeyedRequest, StoredResponse
from headwater.schemas.errors import StoreUnavailable
from tests.support.faults.faulty_backend import Fault, FaultyBackend, twice, unavailable, unknown

ASKED = KeyedRequest(principal="ann", key="k", route="POST /x", fingerprint=b"1")


class Rows(IdempotencyRows):
    """Over a backend with faults; nothing else of a kernel is needed."""

    def __init__(self, backend: FaultyBackend) -> None:
        self._realm, self._backend, self._clock = "r#1", backend, SystemClock()


def claim(rows: Rows, owner: str, running_seconds: float = 60) -> ClaimResult:
    return rows.claim(ASKED, "id", owner, running_seconds=running_seconds, kept_seconds=60)[0]


@pytest.fixture
def backend() -> FaultyBackend:
    inner = open_backend("memory://")
    inner.create_schema()
    return FaultyBackend(inner)


LOST_INSERTS = [
    unknown("insert_mutable", landed=True),
    unknown("insert_mutable", landed=False),
    twice("insert_mutable"),
]
LOST_UPDATES = [
    unknown("update_mutable", landed=True),
    unknown("update_mutable", landed=False),
    twice("update_mutable"),
]


@pytest.mark.parametrize("fault", LOST_INSERTS, ids=lambda fault: fault.name)
def test_a_claimant_recognizes_its_claim_although_the_answer_was_lost(backend: FaultyBackend, fault: Fault) -> None:
    rows = Rows(backend)
    backend.arm(fault)
    assert claim(rows, "first") is ClaimResult.RUN and fault.fired == 1
    assert claim(rows, "second") is ClaimResult.WAIT


@pytest.mark.parametrize("fault", LOST_UPDATES, ids=lambda fault: fault.name)
def test_a_takeover_is_recognized_although_the_answer_was_lost(backend: FaultyBackend, fault: Fault) -> None:
    rows = Rows(backend)
    assert claim(rows, "the dead", running_seconds=0) is ClaimResult.RUN
    backend.arm(fault)
    assert claim(rows, "heir") is ClaimResult.RUN and fault.fired == 1
    assert claim(rows, "second") is ClaimResult.WAIT


def test_a_stored_answer_stays_although_its_response_was_lost(backend: FaultyBackend) -> None:
    rows = Rows(backend)
    mine = rows.claim(ASKED, "id", "first", running_seconds=60, kept_seconds=60)[1]
    fault = backend.arm(unknown("update_mutable", landed=True))
    assert rows.finish(mine, StoredResponse(201, [], b"{}")) and fault.fired == 1
    assert claim(rows, "second") is ClaimResult.DONE


def test_a_store_that_is_away_claims_nothing(backend: FaultyBackend) -> None:
    rows = Rows(backend)
    fault = backend.arm(unavailable("insert_mutable"))
    with pytest.raises(StoreUnavailable):
        claim(rows, "first")
    assert fault.fired == 1 and claim(rows, "second") is ClaimResult.RUN
