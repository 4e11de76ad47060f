"""On every backend: a realm comes in from another database and goes out to a third, the same in all of them."""

from __future__ import annotations

import secrets
from pathlib import Path

import pytest

from headwater.persistence.backend import Backend
from headwater.persistence.backends import open_backend
from headwater.persistence.clock import SystemClock
from headwater.persistence.commit import draft
from headwater.persistence.realms.realms import Realms
from headwater.streaming.reachability.retained_identifiers import Identifiers
from headwater.streaming.sweep.verify import verify_realm
from tests.support.faults.manual_clock import ManualClock
from tests.support.fixtures.maintained import MAIN
from tests.support.fixtures.transferred import check_same, export, is_empty, load, memory_backend, realm_with_history
from tests.support.models.commit_harness import Lanes, Write, store_on

DAYS = 86_400_000_000


def test_a_realm_moves_through_this_database_and_stays_the_same(
    backend: Backend, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In comes what is reached, out go all rows."""
    monkeypatch.setattr(draft, "TAIL_ENTRIES_MAX", 4)
    source = open_backend(f"sqlite:///{tmp_path}/source.db")
    source.create_schema()
    now = SystemClock().now_micros()
    realm = realm_with_history(source, ManualClock(now - 30 * DAYS), steps=12 if kind == "cassandra" else 30)
    realm.expire("cat/*=8n")
    name = f"moved-{secrets.token_hex(4)}"
    here, there = store_on(backend), store_on(memory_backend())
    here_report = load(here, export(realm.store, tmp_path / "1").file, name)
    check_same(realm.store, realm.realm, here, here_report)
    Lanes(here.kernel(here_report.instance)).landed(MAIN, Write(puts={"new": {"v": 1}}))
    there_report = load(there, export(here, tmp_path / "2", name, low_level=True).file, name)
    check_same(here, here_report.instance, there, there_report, garbage_too=True)
    assert verify_realm(backend, here_report.instance, here.clock, Identifiers()).holds
    Realms(here).deactivate(name)
    Realms(here).purge(name)
    Realms(here).finish_purge(name)
    assert is_empty(backend, here_report.instance) and not is_empty(there.backend, there_report.instance)
    source.close()
