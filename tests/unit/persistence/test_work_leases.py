"""A lease has one holder at a time; a holder that lost it learns so from the store, and its successor finds what it decided."""

from __future__ import annotations

import pytest

from headwater.persistence.backends.memory.memory_backend import MemoryBackend, MemoryStore
from headwater.persistence.coordination.cas_rows import SEND_TRIES_MAX, change_row
from headwater.persistence.coordination.pointer_writes import touch_pointers, write_pointer
from headwater.persistence.coordination.work_leases import HeldLease, WorkLeases
from headwater.persistence.rows import PointerRow
from headwater.schemas.errors import MaintenanceSuperseded, OutcomeUnknown
from tests.support.faults.faulty_backend import FaultyBackend, first, unavailable, unknown
from tests.support.faults.manual_clock import ManualClock

REALM = "lake#0000000000000001"


@pytest.fixture
def backend() -> FaultyBackend:
    inner = MemoryBackend(MemoryStore())
    inner.create_schema()
    return FaultyBackend(inner)


def taken(backend: FaultyBackend, holder: str, clock: ManualClock | None = None) -> HeldLease:
    leases = WorkLeases(backend, clock or ManualClock())
    lease = leases.take("work", holder, leases.look("work"))
    assert lease is not None
    return lease


def test_a_lease_that_another_process_took_is_lost_at_once_though_its_time_is_not_over(backend: FaultyBackend) -> None:
    first_holder = taken(backend, "one")
    assert not first_holder.is_lost()
    second = taken(backend, "two")
    assert first_holder.is_lost() and not second.is_lost()
    with pytest.raises(MaintenanceSuperseded, match="'work'"):
        first_holder.require()
    with pytest.raises(MaintenanceSuperseded, match="'work'"):
        first_holder.claim.require(backend)
    first_holder.release()
    assert not second.is_lost(), "a holder that had lost its lease gave back another's"


def test_a_lease_that_ran_out_is_still_its_holders_while_nobody_has_taken_it(backend: FaultyBackend) -> None:
    clock = ManualClock()
    lease = taken(backend, "one", clock)
    clock.move(3_600)
    assert not lease.is_lost()


def test_what_was_decided_under_a_lease_is_found_by_its_successor(backend: FaultyBackend) -> None:
    lease = taken(backend, "one")
    lease.decide(b"batch 7")
    lease.renew()
    assert taken(backend, "two").memo == b"batch 7"


def test_nothing_is_decided_under_a_lease_that_was_taken_over(backend: FaultyBackend) -> None:
    lease = taken(backend, "one")
    fault = backend.arm(first("update_mutable", lambda: taken(backend, "two").decide(b"of the successor")))
    with pytest.raises(MaintenanceSuperseded):
        lease.decide(b"of the sleeper")
    assert fault.fired == 1
    assert taken(backend, "three").memo == b"of the successor"


@pytest.mark.parametrize("landed", [True, False])
def test_a_decision_whose_outcome_was_unknown_is_looked_up_and_sent_again(backend: FaultyBackend, landed: bool) -> None:
    lease = taken(backend, "one")
    fault = backend.arm(unknown("update_mutable", landed=landed))
    lease.decide(b"done")
    assert fault.fired == 1
    assert taken(backend, "two").memo == b"done"


@pytest.mark.parametrize("landed", [True, False])
def test_a_decision_of_a_lost_lease_is_refused_though_its_outcome_was_unknown(backend: FaultyBackend, landed: bool) -> None:
    lease = taken(backend, "one")
    fault = backend.arm(unknown("update_mutable", landed=landed, then=lambda: taken(backend, "two").decide(b"of two")))
    with pytest.raises(MaintenanceSuperseded):
        lease.decide(b"of one")
    assert fault.fired == 1
    assert taken(backend, "three").memo == b"of two"


def test_a_decision_whose_outcome_stays_unknown_ends_the_lease_and_keeps_its_memo(backend: FaultyBackend) -> None:
    lease = taken(backend, "one")
    fault = backend.arm(unknown("update_mutable", landed=True))
    backend.arm(*(unavailable("read_mutable") for _ in range(SEND_TRIES_MAX)))
    backend.arm(*(unavailable("update_mutable") for _ in range(SEND_TRIES_MAX - 1)))
    with pytest.raises(OutcomeUnknown):
        lease.decide(b"done")
    backend.disarm()
    lease.renew()
    assert fault.fired == 1 and lease.is_lost()
    assert taken(backend, "two").memo == b"done", "a renewal overwrote a decision that landed"


def test_a_renewal_follows_an_earlier_one_whose_outcome_stayed_unknown(backend: FaultyBackend) -> None:
    lease = taken(backend, "one")
    fault = backend.arm(unknown("update_mutable", landed=True))
    backend.arm(*(unavailable("read_mutable") for _ in range(SEND_TRIES_MAX)))
    backend.arm(*(unavailable("update_mutable") for _ in range(SEND_TRIES_MAX - 1)))
    with pytest.raises(OutcomeUnknown):
        lease.renew()
    backend.disarm()
    lease.renew()
    assert fault.fired == 1 and not lease.is_lost()


# ── rows that are written under a right ─────────────────────────────────────────────────────────────────────


def test_a_row_is_not_written_by_a_process_that_lost_the_right_between_reading_and_writing(backend: FaultyBackend) -> None:
    clock, lease = ManualClock(), taken(backend, "one")

    def write(payload: bytes, held: HeldLease) -> bool:
        return change_row(backend, REALM, "reader", "archive", lambda _: payload, clock, may_write=held.require)

    assert write(b"1", lease)

    def taken_over() -> None:
        assert write(b"of the successor", taken(backend, "two"))

    fault = backend.arm(first("update_mutable", taken_over))
    with pytest.raises(MaintenanceSuperseded):
        write(b"2", lease)
    row = backend.read_mutable(REALM, "reader", "archive")
    assert fault.fired == 1 and row is not None and row.payload == b"of the successor"


def test_a_touched_pointer_row_rejects_everything_prepared_before(backend: FaultyBackend) -> None:
    clock, lease = ManualClock(), taken(backend, "one")
    backend.add_name(REALM, "main")
    backend.reserve_pointer(REALM, "main", PointerRow(created_at=1, seq=9))
    before = backend.read_pointer(REALM, "main")
    lease.require()

    def taken_over() -> None:
        taken(backend, "two")
        assert touch_pointers(backend.inner, REALM, clock) == 1

    fault = backend.arm(first("cas_pointer", taken_over))
    with pytest.raises(MaintenanceSuperseded):
        write_pointer(backend, REALM, "main", before, lambda row: PointerRow(created_at=1, floor=5), lease.require, clock)
    row = backend.read_pointer(REALM, "main")
    assert fault.fired == 1 and row == PointerRow(created_at=1, seq=9, version=2)
