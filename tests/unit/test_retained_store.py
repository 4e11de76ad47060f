"""A retained set that was seeded by walking, without Spark: exact, whole or not there, never trusted once altered."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from headwater.persistence import draft
from headwater.persistence.backends.memory import MemoryBackend, MemoryStore
from headwater.schemas.errors import RetainedCorrupt, RetainedMoved
from headwater.streaming.fenced import fence_realm
from headwater.streaming.identifiers import Identifiers
from headwater.streaming.retained_seed import seed
from headwater.streaming.retained_sources import require_complete
from headwater.streaming.retained_store import RetainedState, RetainedStore
from headwater.streaming.segments import Histories, Segment
from tests.commit_harness import REALM
from tests.maintained import HOUR, Maintained


def new_realm(number: int) -> Maintained:
    backend = MemoryBackend(MemoryStore())
    backend.create_schema()
    return Maintained(backend, seed=number)


def in_memory(state: RetainedState) -> Histories:
    """The same rows in the model that thousands of histories have proved."""
    histories = Histories()
    histories.positions = dict(state.positions)
    for bound in sorted(state.bounds, key=lambda it: it.start):
        histories.segments.setdefault(bound.pointer, []).append(Segment(start=bound.start, base=bound.base))
    rows = [row for folder in state.folders for row in pq.read_table(folder).to_pylist()]
    for row in sorted(rows, key=lambda it: (it["seq"], not it["added"])):
        segment = next(it for it in histories.segments[row["pointer"]] if it.start == row["segment"])
        (segment.add if row["added"] else segment.release)(row["object"], row["seq"])
    return histories


@pytest.mark.parametrize("number", range(8))
def test_a_seeded_set_retains_exactly_what_a_walk_finds_also_where_bases_were_cut(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(draft, "TAIL_ENTRIES_MAX", 4)
    realm = new_realm(number)
    for _ in range(2):
        for _ in range(40):
            realm.step()
        realm.expire("*=8n")
        realm.clock.move(4 * HOUR)
        realm.sweep()
        state = seed(realm.backend, RetainedStore(tmp_path, REALM))
        fenced = fence_realm(realm.backend, REALM, realm.clock)
        require_complete(fenced.spans, state.positions)
        floors = {pointer: span.floor for pointer, span in fenced.spans.items()}
        walked = set(Identifiers().retained(realm.backend, REALM, fenced.spans))
        assert in_memory(state).retained(floors) == walked
    assert len(list(RetainedStore(tmp_path, REALM).folder.glob("step-*"))) == 1  # a fresh step replaces what was before


def seeded(tmp_path: Path) -> RetainedStore:
    realm = new_realm(1)
    for _ in range(20):
        realm.step()
    store = RetainedStore(tmp_path, REALM)
    state = seed(realm.backend, store)
    for _ in range(3):  # three empty steps behind it
        state = store.append(state, {}, [], lambda _: 0)
    return store


def test_steps_add_up_and_an_unfinished_one_is_not_there(tmp_path: Path) -> None:
    store = seeded(tmp_path)
    (store.folder / "unfinished-000000005").mkdir()
    state = store.load()
    assert state is not None and state.number == 4 and state.rows > 0


@pytest.mark.parametrize("damage", ["meta altered", "meta gone", "rows gone", "step gone", "another realm"])
def test_a_set_that_does_not_add_up_is_corrupt(tmp_path: Path, damage: str) -> None:
    store = seeded(tmp_path)
    first, _, third, _ = sorted(store.folder.glob("step-*"))
    match damage:
        case "meta altered":
            text = (first / "step.json").read_text()
            (first / "step.json").write_text(text.replace('"rows":', '"rows":1'))
        case "meta gone":
            (third / "step.json").unlink()
        case "rows gone":
            shutil.rmtree(first / "rows")
        case "step gone":
            shutil.rmtree(third)
        case _:
            shutil.copytree(store.folder, tmp_path / "other")
            store = RetainedStore(tmp_path, "other")
    with pytest.raises(RetainedCorrupt):
        store.load()


def test_there_is_no_set_before_the_first_step(tmp_path: Path) -> None:
    assert RetainedStore(tmp_path, REALM).load() is None


def test_of_two_writers_of_one_step_the_second_is_told(tmp_path: Path) -> None:
    store = seeded(tmp_path)
    state = store.load()
    assert state is not None
    store.append(state, {}, [], lambda _: 0)
    with pytest.raises(RetainedMoved):
        store.append(state, {}, [], lambda _: 0)
