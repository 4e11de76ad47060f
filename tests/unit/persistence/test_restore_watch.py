"""A process looks for a restore once a second, by whatever clock."""

from __future__ import annotations

import pytest

from headwater.persistence.backends import open_backend
from headwater.persistence.coordination.restore_watch import CHECK_SECONDS
from headwater.persistence.store import Store, StoreOptions
from tests.support.faults.faulty_backend import FaultyBackend
from tests.support.faults.manual_clock import ManualClock

HOUR = 3_600.0


@pytest.mark.parametrize("jump_seconds", [0.0, -HOUR, HOUR])
def test_a_clock_that_jumps_puts_off_no_look_at_the_store(jump_seconds: float) -> None:
    clock, backend = ManualClock(), FaultyBackend(open_backend("memory://"))
    with Store(backend, StoreOptions(), clock) as store:
        store.restores.check_if_due()
        clock.move(jump_seconds)
        store.restores.check_if_due()
        looked = backend.calls["read_mutable"]
        store.restores.check_if_due()
        assert backend.calls["read_mutable"] == looked, "not more often than once a second"
        clock.move(CHECK_SECONDS)
        store.restores.check_if_due()
        assert backend.calls["read_mutable"] == looked + 1
