"""A retained set that was seeded by walking, without Spark: exact, whole or not there, never trusted once altered."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headwater.persistence.backends.memory.memory_backend import MemoryBackend, MemoryStore
from headwater.persistence.commit import draft
from headwater.schemas.errors import MaintenanceRefused, RetainedCorrupt, RetainedMoved
from headwater.streaming.reachability.fence import fence_realm
from headwater.streaming.reachability.retained_identifiers import Identifiers
from headwater.streaming.retained.retained_seed import SetRow, seed, write_rows
from headwater.streaming.retained.retained_sources import require_complete
from headwater.streaming.retained.retained_store import RetainedState, RetainedStore
from headwater.streaming.retained.step_files import count_rows
from tests.support.fixtures.maintained import HOUR, Maintained
from tests.support.models.commit_harness import REALM
from tests.support.models.retained_model import in_memory


def new_realm(number: int) -> Maintained:
    backend = MemoryBackend(MemoryStore())
    backend.create_schema()
    return Maintained(backend, seed=number)


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


@pytest.mark.parametrize("damage", ["one lost", "one altered", "one more", "two swapped", "a byte", "a file more"])
def test_a_set_whose_rows_are_not_those_that_were_written_is_corrupt(tmp_path: Path, damage: str) -> None:
    """Also by an object that has read the set before: a sweep must not begin with rows that have changed."""
    store = seeded(tmp_path)
    assert store.load() is not None
    (file,) = (store.folder / "step-000000001" / "rows").glob("*.parquet")
    table = pq.read_table(file)
    objects = table.column("object").to_pylist()
    match damage:
        case "one lost":
            pq.write_table(table.slice(1), file)
        case "one altered":
            objects[3] += 1
        case "one more":
            pq.write_table(pa.concat_tables([table, table.slice(0, 1)]), file)
        case "two swapped":
            objects[0], objects[-1] = objects[-1], objects[0]
        case "a byte":
            content = bytearray(file.read_bytes())
            content[len(content) // 2] ^= 1
            file.write_bytes(content)
        case _:
            shutil.copy(file, file.with_name("part-00001.parquet"))
    if objects != table.column("object").to_pylist():
        pq.write_table(table.set_column(2, "object", pa.array(objects, pa.int64())), file)
    for reader in (store, RetainedStore(tmp_path, REALM)):
        with pytest.raises(RetainedCorrupt, match="not those that were written"):
            reader.load()


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


def test_the_second_of_two_writers_of_one_step_is_refused(tmp_path: Path) -> None:
    store = seeded(tmp_path)
    state = store.load()
    assert state is not None
    store.append(state, {}, [], lambda _: 0)
    with pytest.raises(RetainedMoved):
        store.append(state, {}, [], lambda _: 0)


def test_two_processes_that_write_the_same_step_do_not_share_a_folder(tmp_path: Path) -> None:
    """A job that follows and a sweep that catches up write step 5 together: the one that comes first is whole."""
    store = seeded(tmp_path)
    before = store.load()
    assert before is not None
    other = RetainedStore(tmp_path, REALM)
    others: list[RetainedState] = []

    def meanwhile(folder: str) -> int:
        count = write_rows(folder, iter([SetRow("p", 1, 1, 1, True)]))
        with pytest.raises(RetainedMoved):  # it begins later, and ends when this one stands already
            other.append(before, {}, [], lambda theirs: ours_ends(theirs, folder, count))
        return count

    def ours_ends(theirs: str, ours: str, count: int) -> int:
        assert Path(theirs) != Path(ours) and count_rows(Path(ours)) == count
        others.append(RetainedStore(tmp_path, REALM).append(before, {}, [], lambda _: 0))
        return write_rows(theirs, iter([SetRow("p", 1, 2, 1, True)]))

    with pytest.raises(RetainedMoved):
        store.append(before, {}, [], meanwhile)
    assert len(others) == 1, "the third process never came"
    after = store.load()
    assert after is not None and after.number == 5 and after.rows == before.rows
    assert not list(store.folder.glob("unfinished-*"))


def test_unfinished_files_of_a_crash_are_removed_with_the_next_step(tmp_path: Path) -> None:
    store = seeded(tmp_path)
    before = store.load()
    assert before is not None
    crashed, ahead = store.folder / "unfinished-000000005-0123", store.folder / "unfinished-000000006-4567"
    for folder in (crashed, ahead):
        folder.mkdir()
    store.append(before, {}, [], lambda _: 0)
    assert not crashed.exists() and ahead.exists()


def test_a_step_that_cannot_be_written_leaves_nothing_and_gives_the_reason(tmp_path: Path) -> None:
    store = seeded(tmp_path)
    before = store.load()

    def full(_: str) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(MaintenanceRefused, match="No space left on device") as refused:
        store.append(before, {}, [], full)
    assert refused.value.field == "maintenance_dir"
    assert store.load() == before and not list(store.folder.glob("unfinished-*"))
