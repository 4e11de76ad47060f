"""On every backend: after expiry and sweep exactly what the kept states reach is there, and a purged realm has no row left."""

from __future__ import annotations

import pytest

from headwater.persistence.backend import Backend
from headwater.persistence.commit import draft
from headwater.persistence.realms.realm_purge import purge_rows, rows_of
from tests.support.fixtures.maintained import HOUR, Maintained


def test_a_sweep_leaves_exactly_what_the_kept_states_reach(
    backend: Backend, realm: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(draft, "TAIL_ENTRIES_MAX", 3)
    maintained = Maintained(backend, seed=4, realm=realm)
    for _ in range(25 if kind == "cassandra" else 60):
        maintained.step()
    maintained.expire("*=3n")
    maintained.clock.move(4 * HOUR)
    reachable = maintained.reachable()
    before = len(maintained.rows())
    report = maintained.sweep(filter="bloom")
    purged = sum(counts.purged for counts in report.counts[realm].values())
    assert not report.failures and purged > 5
    assert maintained.ids() == reachable and len(maintained.rows()) == before - purged
    maintained.check_states()
    purge_rows(backend, realm)
    assert next(rows_of(backend, realm), None) is None
