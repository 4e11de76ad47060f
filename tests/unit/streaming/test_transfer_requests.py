"""Request ids of an exported realm: a copy answers as committed what its own log holds, and nothing else."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from headwater.persistence.backends.memory.memory_backend import MemoryBackend
from headwater.persistence.log.committed_requests import CommittedRequest, request_row
from headwater.persistence.log.log_entry import LogRecord
from headwater.persistence.store import Store
from headwater.schemas.errors import CommitOutcomeUnknown
from headwater.streaming.expire.expire import Expiry
from headwater.streaming.expire.retention import parse_retention
from headwater.streaming.transfer.consistent_cut import ConsistentCut, Rows
from tests.support.faults.manual_clock import ManualClock
from tests.support.fixtures.maintained import HOUR, MAIN, Maintained, sweep_store
from tests.support.fixtures.transferred import export, load, memory_backend, new_realm, object_rows, target
from tests.support.models.commit_harness import Lanes, Write, request_ids, store_on, whole_log

COMMITS = 40


@pytest.fixture
def realm() -> Maintained:
    return new_realm(memory_backend(), ManualClock())


def keyed() -> Write:
    return Write(puts={"a": {"v": 1}}, request_id="mine", request_id_is_callers=True)


def write_on(lanes: Lanes) -> None:
    for number in range(COMMITS):
        lanes.landed(MAIN, Write(puts={"b": {"v": number}}))


def forget_history(store: Store, instance: str) -> None:
    """Expire all but the newest entries, and sweep."""
    Expiry(store.kernel(instance), parse_retention("*=3n"), pin_sources=None).run()
    store.clock.sleep(24 * HOUR)
    report, _ = sweep_store(store, [instance], grace_seconds=300)
    assert not report.failures


@pytest.mark.parametrize("low_level", [False, True])
def test_a_request_committed_after_the_cut_is_committed_in_the_copy_when_it_is_repeated(
    realm: Maintained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, low_level: bool
) -> None:
    """Its number comes again in the copy, as another entry, which then expires."""
    realm.write()
    landed: list[LogRecord] = []
    take = ConsistentCut.take

    def take_and_commit(cut: ConsistentCut) -> Rows:
        rows = take(cut)
        landed.append(realm.lanes.landed(MAIN, keyed()))
        return rows

    monkeypatch.setattr(ConsistentCut, "take", take_and_commit)
    done = export(realm.store, tmp_path, low_level=low_level)
    assert landed
    copied = target(after=realm.clock)
    instance = load(copied, done.file).instance
    write_on(Lanes(copied.kernel(instance)))
    forget_history(copied, instance)
    cold = store_on(copied.backend, clock=copied.clock).kernel(instance)
    again = cold.committer.commit(MAIN, keyed())
    assert not again.replayed and request_ids(whole_log(cold, MAIN))[-1] == "mine"


def test_a_request_committed_before_the_cut_stays_known_after_its_history_expires_in_the_copy(
    realm: Maintained, tmp_path: Path
) -> None:
    landed = realm.lanes.landed(MAIN, keyed())
    copied = target(after=realm.clock)
    instance = load(copied, export(realm.store, tmp_path).file).instance
    write_on(Lanes(copied.kernel(instance)))
    forget_history(copied, instance)
    assert landed.object_id not in {object_id for object_id, _ in object_rows(copied.backend, instance)}, "it is gone"
    again = store_on(copied.backend, clock=copied.clock).kernel(instance).committer.commit(MAIN, keyed())
    assert again.replayed and again.head_seq == landed.entry.seq


class InTwoSteps(MemoryBackend):
    """As on Cassandra, an attempt that is lost leaves its row behind."""

    abilities = msgspec.structs.replace(MemoryBackend.abilities, commits_in_one_transaction=False)


@pytest.mark.parametrize("low_level", [False, True])
def test_a_request_row_without_its_entry_in_the_source_proves_nothing_in_the_copy(tmp_path: Path, low_level: bool) -> None:
    backend = InTwoSteps(memory_backend().store)
    realm = new_realm(backend, ManualClock())
    landed = realm.write()
    (lost,) = realm.store.take(1)
    entry_id = lost.to_bytes(8, "big") + bytes(24)
    row = CommittedRequest(MAIN, "mine", b"", entry_id, landed.entry.seq, entry_id)
    backend.write_objects(realm.realm, [request_row(row, realm.clock.now_micros() + 7 * 24 * HOUR * 1_000_000)])
    write_on(realm.lanes)
    forget_history(realm.store, realm.realm)
    copied = target(after=realm.clock)
    instance = load(copied, export(realm.store, tmp_path, low_level=low_level).file).instance
    assert copied.backend.abilities.commits_in_one_transaction
    with pytest.raises(CommitOutcomeUnknown):
        copied.kernel(instance).committer.commit(MAIN, keyed())
