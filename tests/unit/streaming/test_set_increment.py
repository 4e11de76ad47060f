"""A set that grows without Spark is the set that a walk finds, whatever order Changes come in; a gap is never passed over."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from headwater.persistence.backends.memory.memory_backend import MemoryBackend, MemoryStore
from headwater.persistence.commit import draft
from headwater.schemas.errors import RetainedCorrupt, RetainedIncomplete, RetainedMoved
from headwater.streaming.reachability.fence import fence_realm
from headwater.streaming.reachability.retained_identifiers import Identifiers
from headwater.streaming.retained import log_increment, retained_store, small_steps
from headwater.streaming.retained.log_increment import add_from_log, entries_behind, spans_behind
from headwater.streaming.retained.retained_seed import seed
from headwater.streaming.retained.retained_sources import require_complete
from headwater.streaming.retained.retained_store import RetainedState, RetainedStore
from headwater.streaming.retained.set_increment import append_changes, change_of_entry, change_of_row, increment
from headwater.streaming.retained.small_steps import merge_small_steps
from headwater.streaming.sources.change_rows import arrow_batch, row_of_entry
from tests.support.fixtures.maintained import HOUR, MAIN, Maintained
from tests.support.models.commit_harness import REALM
from tests.support.models.retained_model import in_memory


def new_realm(number: int = 0) -> Maintained:
    backend = MemoryBackend(MemoryStore())
    backend.create_schema()
    return Maintained(backend, seed=number)


def caught_up(realm: Maintained, store: RetainedStore) -> RetainedState:
    state = store.load() or seed(realm.backend, store)
    return add_from_log(realm.backend, store, state, spans_behind(realm.backend, state))


def check_against_a_walk(realm: Maintained, state: RetainedState) -> None:
    fenced = fence_realm(realm.backend, REALM, realm.clock)
    require_complete(fenced.spans, state.positions)
    floors = {pointer: span.floor for pointer, span in fenced.spans.items()}
    assert in_memory(state).retained(floors) == set(Identifiers().retained(realm.backend, REALM, fenced.spans))


@pytest.mark.parametrize("number", range(6))
def test_a_set_that_grows_from_the_log_retains_what_a_walk_finds(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(draft, "TAIL_ENTRIES_MAX", 4)
    monkeypatch.setattr(log_increment, "ROWS_PER_STEP", 60)
    realm, store = new_realm(number), RetainedStore(tmp_path, REALM)
    for rounds in range(6):
        for _ in range(15):
            realm.step()
        state = caught_up(realm, store)
        assert not entries_behind(state, spans_behind(realm.backend, state))
        assert state == RetainedStore(tmp_path, REALM).load(), "what is remembered is what the files hold"
        check_against_a_walk(realm, state)
        if rounds % 2:
            realm.expire("*=8n")
            realm.clock.move(4 * HOUR)
            realm.sweep()
    assert state.number > 6, "large increments go in several steps"


def test_changes_in_any_order_twice_and_known_already_make_the_same_set(tmp_path: Path) -> None:
    realm, store, other = new_realm(3), RetainedStore(tmp_path / "a", REALM), RetainedStore(tmp_path / "b", REALM)
    seed(realm.backend, store)
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    for _ in range(40):
        realm.step()
    expected = caught_up(realm, store)
    logged = [entry for log in realm.logs.values() for entry in log]
    rows = arrow_batch(row_of_entry(entry, REALM) for entry in logged).to_pylist()  # as a topic brings them
    changes = [change_of_row(row) for row in rows]
    assert changes == [
        change._replace(added=list(change.added), released=list(change.released)) for change in map(change_of_entry, logged)
    ]
    chance = random.Random(1)
    state = other.load()
    assert state is not None
    firsts = [change for change in changes if change.seq <= 3]
    for group in (firsts, chance.sample(changes + changes, 2 * len(changes)), changes):
        state = append_changes(other, state, group)
    assert state.positions == expected.positions and sorted(state.bounds, key=repr) == sorted(expected.bounds, key=repr)
    check_against_a_walk(realm, state)
    assert increment(state, changes) is None


def test_changes_that_do_not_follow_the_set_are_refused_and_nothing_is_written(tmp_path: Path) -> None:
    realm, store = new_realm(), RetainedStore(tmp_path, REALM)
    for _ in range(3):
        realm.write()
    state = caught_up(realm, store)
    for _ in range(4):
        realm.write()
    later = [change_of_entry(entry) for entry in realm.logs[MAIN][3:]]
    forged = later[0]._replace(previous_id="ab" * 32)
    for wrong in (later[1:], [later[0], later[2]], [forged, *later[1:]], [*later, later[2]._replace(entry_id="cd" * 32)]):
        with pytest.raises(RetainedIncomplete, match="does not follow"):
            append_changes(store, state, wrong)
    assert store.load() == state
    realm.expire("*=2n")
    with pytest.raises(RetainedIncomplete, match="are cut"):
        caught_up(realm, store)


def test_a_set_that_another_process_moved_or_that_lost_a_step_is_noticed(tmp_path: Path) -> None:
    realm, store, other = new_realm(), RetainedStore(tmp_path, REALM), RetainedStore(tmp_path, REALM)
    realm.write()
    first = caught_up(realm, store)
    realm.write()
    second = caught_up(realm, other)
    realm.write()
    behind = spans_behind(realm.backend, first)
    with pytest.raises(RetainedMoved):
        add_from_log(realm.backend, store, first, behind)
    assert store.load() == second
    third = caught_up(realm, store)
    assert third.number == 3 and other.load() == third
    newest = store.folder / "step-000000003" / "rows" / "part-00000.parquet"
    rows = newest.read_bytes()
    newest.write_bytes(rows[:-1] + b"x")
    with pytest.raises(RetainedCorrupt):
        store.load()
    newest.write_bytes(rows)
    shutil.rmtree(store.folder / "step-000000002")
    with pytest.raises(RetainedCorrupt):
        store.load()
    seed(realm.backend, other)
    assert store.load() == other.load()


def test_small_steps_are_merged_and_the_set_stays_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(small_steps, "MERGE_STEPS", 8)
    realm, store = new_realm(2), RetainedStore(tmp_path / "a", REALM)
    unmerged = RetainedStore(tmp_path / "b", REALM)
    realm.step()
    state, plain = seed(realm.backend, store), seed(realm.backend, unmerged)
    for _ in range(60):
        realm.step()
        plain = caught_up(realm, unmerged)
        before = state
        state = merge_small_steps(store, caught_up(realm, store))
        if state.number > before.number + 1:
            assert state.positions == plain.positions and state.rows == plain.rows
            assert RetainedStore(tmp_path / "a", REALM).load() == state
    assert len(state.folders) < len(plain.folders) // 2
    assert state.passed == plain.passed, "every position that was passed is still looked for"
    assert state.bounds == plain.bounds
    check_against_a_walk(realm, state)

    steps = sorted(path.name for path in store.folder.iterdir())
    assert len(steps) > 60, "who began to read a step before it was merged still finds it"
    monkeypatch.setattr(retained_store, "REPLACED_SECONDS", 0.0)
    while state.number <= int(steps[-1][-9:]) + 8:
        realm.step()
        state = merge_small_steps(store, caught_up(realm, store))
    assert len(list(store.folder.iterdir())) < 20
    assert RetainedStore(tmp_path / "a", REALM).load() == state
    check_against_a_walk(realm, state)
    merged = next(path for path in store.folder.iterdir() if (path / "merged.json").exists())
    (merged / "rows" / "part-00000.parquet").write_bytes(b"")
    with pytest.raises(RetainedCorrupt):
        RetainedStore(tmp_path / "a", REALM).load()
    shutil.rmtree(merged)
    with pytest.raises(RetainedCorrupt, match="missing"):
        RetainedStore(tmp_path / "a", REALM).load()


def test_a_process_that_is_killed_while_it_merges_leaves_the_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(small_steps, "MERGE_STEPS", 4)
    realm, store = new_realm(), RetainedStore(tmp_path, REALM)
    for _ in range(8):
        realm.write()
        state = caught_up(realm, store)

    def fail(self: Path, target: Path) -> Path:
        raise KeyboardInterrupt

    with monkeypatch.context() as killed:
        killed.setattr(Path, "rename", fail)
        with pytest.raises(KeyboardInterrupt):
            merge_small_steps(store, state)
    assert RetainedStore(tmp_path, REALM).load() == state
    realm.write()
    check_against_a_walk(realm, merge_small_steps(RetainedStore(tmp_path, REALM), caught_up(realm, store)))
