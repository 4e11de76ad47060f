"""The retained set that a stream makes is the one that a walk finds, object by object: over branches, assigns, deletes, cuts,
restarts and compaction; and a sweep on Spark's workers by that set leaves exactly what kept states reach."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import headwater
from headwater.persistence.backends import open_backend
from headwater.persistence.commit import draft
from headwater.schemas.errors import RetainedCorrupt, RetainedIncomplete, RetainedMoved, SparkFailed
from headwater.streaming.expire.readers import RegisteredReaders
from headwater.streaming.reachability.fence import fence_realm
from headwater.streaming.reachability.retained_identifiers import Identifiers
from headwater.streaming.reachability.safeguards import Safeguards
from headwater.streaming.reachability.segments import Bounds, SegmentPosition
from headwater.streaming.retained import small_steps
from headwater.streaming.retained.retained_seed import SetRow, seed, write_rows
from headwater.streaming.retained.retained_sources import WalkedSource, require_complete
from headwater.streaming.retained.retained_store import RetainedStore
from headwater.streaming.retained.step_files import COMPACTING
from headwater.streaming.sources.kafka_changes import KafkaOptions
from headwater.streaming.sources.linked_batches import PointerBatch, pointer_batches
from headwater.streaming.spark.spark_errors import typed_errors
from headwater.streaming.spark_jobs.retained_job import RetainedJob, lag
from headwater.streaming.spark_jobs.retained_rows import StreamedSource, compact, intervals, retained_ids
from headwater.streaming.spark_jobs.spark_executor import SparkExecutor
from headwater.streaming.sweep.verify import verify_realm
from tests.support.fixtures.maintained import DEV, HOUR, MAIN, Maintained
from tests.support.fixtures.publisher_runs import options, publish_rest
from tests.support.fixtures.spark_lakes import fill, put_tables
from tests.support.processes.retained_process import run_and_be_killed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

INSTANCE = "lake#0000000000000001"


class Streamed:
    """A realm in SQLite, and its retained set."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark
        self.url = f"sqlite:///{folder}/lake.db"
        self.folder = str(folder / "retained")
        backend = open_backend(self.url)
        backend.create_schema()
        self.realm = Maintained(backend, seed=11, realm=INSTANCE)
        self.store = RetainedStore(self.folder, INSTANCE)

    def steps(self, count: int) -> None:
        for _ in range(count):
            self.realm.step()

    def job(self, *, here_max: int = 0) -> RetainedJob:
        return RetainedJob(self.spark, self.realm.store, self.url, self.store, here_max=here_max)

    def compare(self) -> None:
        fenced = fence_realm(self.realm.backend, INSTANCE, self.realm.clock)
        streamed = StreamedSource(self.spark, self.folder).retained(fenced)
        require_complete(fenced.spans, streamed.positions)
        walked = WalkedSource(self.realm.backend, Identifiers()).retained(fenced)
        assert streamed.ids.local() == walked.ids


@pytest.fixture
def streamed(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Streamed]:
    monkeypatch.setattr(draft, "TAIL_ENTRIES_MAX", 4)
    monkeypatch.setattr(draft, "OPERATIONS_BYTES_MAX", 700)
    made = Streamed(spark, tmp_path)
    yield made
    made.realm.backend.close()


def test_the_streamed_set_is_the_walked_set_through_a_realms_whole_life(streamed: Streamed) -> None:
    realm = streamed.realm
    streamed.steps(30)
    streamed.job().run()
    assert lag(realm.store, streamed.job().state()) == {}
    streamed.steps(30)
    state = streamed.job().run(changes_per_batch=20)
    assert state.number == 3  # it was seeded, and continued by two batches
    assert realm.expire("*=6n").expired > 0
    streamed.compare()

    realm.clock.move(4 * HOUR)
    reachable = realm.reachable()
    executor = SparkExecutor(streamed.spark, streamed.url, realm.backend)
    source = StreamedSource(streamed.spark, streamed.folder)
    report = realm.sweep(source=source, executor=executor, filter="bloom", splits=4)
    assert not report.failures and realm.ids() == reachable
    assert sum(counts.purged for counts in report.counts[INSTANCE].values()) > 20
    realm.check_states()

    rows_before = streamed.job().state().rows
    floors = {pointer: realm.floor(pointer) for pointer in realm.logs}
    state = compact(streamed.spark, streamed.store, floors)
    assert state.rows < rows_before
    streamed.steps(20)
    streamed.job().run()
    streamed.compare()


class Between:
    """A lock whose holder is kept waiting: something happens before the lock is taken for the last time."""

    def __init__(self, happens: Callable[[], object]) -> None:
        self._happens = happens
        self._taken = 0

    def __enter__(self) -> None:
        self._taken += 1
        if self._taken == 2:
            self._happens()

    def __exit__(self, *_: object) -> None:
        pass


def test_a_set_grows_while_it_is_compacted_and_loses_nothing(streamed: Streamed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(small_steps, "MERGE_STEPS", 4)
    realm, job = streamed.realm, streamed.job(here_max=1_000)
    spanning: list[bool] = []

    def grow() -> None:
        for _ in range(10):
            streamed.steps(4)
            job.run()

    def grow_meanwhile() -> None:
        grow()
        spanning.extend(meta.first <= before.number < meta.number for _, meta in streamed.store.live())

    grow()
    assert realm.expire("*=6n").expired > 0
    before = job.run()
    floors = {pointer: realm.floor(pointer) for pointer in realm.logs}
    after = compact(streamed.spark, streamed.store, floors, Between(grow_meanwhile))
    assert any(spanning), "no merged step holds what was there before and what came meanwhile"
    assert len(after.folders) == 1 and after.positions == {
        pointer: at._replace(first=max(at.first, floors[pointer])) for pointer, at in job.run().positions.items()
    }
    for pointer, at in before.positions.items():
        ends = [end.seq for end in after.passed[pointer]]
        assert ends[0] == at.seq and len(ends) > 1, "a sweep compares each position that came meanwhile with the log"
    streamed.compare()
    grow()
    streamed.compare()


def test_a_set_that_is_begun_again_while_it_is_compacted_stays_as_it_is(streamed: Streamed) -> None:
    streamed.steps(20)
    job = streamed.job(here_max=1_000)
    job.run()
    floors = {pointer: streamed.realm.floor(pointer) for pointer in streamed.realm.logs}
    with pytest.raises(RetainedMoved):
        compact(streamed.spark, streamed.store, floors, Between(lambda: job.run(reseed=True)))
    assert not list(streamed.store.folder.glob(f"{COMPACTING}*"))
    streamed.compare()


def test_a_pointer_that_a_smaller_set_leaves_out_and_that_goes_on_keeps_it_from_being_used(streamed: Streamed) -> None:
    """The sweep's fence did not know the pointer: half of its log would look like the whole."""
    realm, job = streamed.realm, streamed.job(here_max=1_000)
    realm.write(MAIN)
    realm.write(DEV)
    job.run()

    def go_on() -> None:
        realm.write(DEV)
        job.run()

    with pytest.raises(RetainedMoved, match="left out"):
        compact(streamed.spark, streamed.store, {MAIN: 1}, Between(go_on))
    streamed.compare()


def test_a_set_that_is_behind_deletes_nothing_and_one_that_ignores_bases_would_lose_objects(streamed: Streamed) -> None:
    """The mutants "completeness check off" and "base ignored" on the streamed set."""
    realm = streamed.realm
    streamed.steps(40)
    streamed.job().run()
    streamed.steps(20)
    realm.clock.move(4 * HOUR)
    before = realm.ids()
    source = StreamedSource(streamed.spark, streamed.folder)
    assert "must stay" in realm.sweep(source=source).failures[0]
    assert realm.ids() == before
    streamed.job().run()
    realm.expire("*=3n")
    realm.clock.move(4 * HOUR)
    reachable = realm.reachable()
    ignoring = StreamedSource(streamed.spark, streamed.folder, follow_base=False)
    realm.sweep(source=ignoring, safeguards=Safeguards(follow_base=False))
    assert not realm.ids() >= reachable


def test_a_corrupt_or_overtaken_set_is_seeded_again_by_walking_never_trusted(streamed: Streamed) -> None:
    realm = streamed.realm
    streamed.steps(30)
    streamed.job().run()
    newest = sorted(streamed.store.folder.glob("step-*"))[-1]
    meta = newest / "step.json"
    meta.write_bytes(meta.read_bytes().replace(b'"rows":', b'"rows":1'))
    with pytest.raises(RetainedCorrupt):
        streamed.store.load()
    realm.expire("*=6n")
    realm.clock.move(4 * HOUR)
    before = realm.ids()
    assert realm.reachable() < before, "there is nothing to delete"
    report = realm.sweep(source=StreamedSource(streamed.spark, streamed.folder))
    assert report.swept == [] and report.failures and realm.ids() == before
    streamed.job().run()
    streamed.compare()

    RegisteredReaders(realm.backend, INSTANCE, realm.clock).forget("retained")
    streamed.steps(30)
    realm.expire("*=2n")
    realm.clock.move(4 * HOUR)
    realm.sweep()  # by walking: the stream's history is gone now
    streamed.job().run()
    streamed.compare()
    realm.check_states()


def test_an_interrupted_batch_is_written_again(streamed: Streamed, monkeypatch: pytest.MonkeyPatch) -> None:
    streamed.steps(10)
    streamed.job().run()
    streamed.steps(10)
    rename, died = Path.rename, list[str]()

    def dies_once(self: Path, target: Path) -> Path:
        if self.name.startswith("unfinished-") and not died:
            died.append(self.name)
            raise RuntimeError("killed here")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", dies_once)
    streamed.job().run()
    assert died
    streamed.compare()


@pytest.mark.timeout(600)  # two JVMs start
def test_a_driver_killed_between_rows_and_position_loses_and_duplicates_nothing(streamed: Streamed) -> None:
    streamed.steps(5)
    streamed.job().run()
    streamed.steps(25)
    run_and_be_killed(streamed.url, streamed.folder, INSTANCE)
    state = streamed.job().state()
    assert state.number == 2 and lag(streamed.realm.store, state)
    assert list(streamed.store.folder.glob("unfinished-*"))
    streamed.job().run()
    streamed.compare()


def test_the_set_is_kept_from_kafka_too_and_a_lag_of_the_topic_deletes_nothing(
    spark: SparkSession, kafka_bootstrap: str, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path}/lake.db"
    with headwater.open(url, create=True) as engine:
        instance = engine.ensure_realm().kernel.realm
        backend, clock = engine.store.backend, engine.store.clock
        job = RetainedJob(spark, engine.store, url, RetainedStore(tmp_path / "retained", instance))
        job.run()  # seeded with the little that a new realm has
        fill(engine)
        behind = StreamedSource(spark, str(tmp_path / "retained")).retained(fence_realm(backend, instance, clock))
        with pytest.raises(RetainedIncomplete):
            require_complete(fence_realm(backend, instance, clock).spans, behind.positions)
        publish_rest(engine.store, options(kafka_bootstrap))
        job.run_kafka(KafkaOptions(bootstrap=kafka_bootstrap, realm_instance=instance, store=url))
        report = verify_realm(backend, instance, clock, Identifiers(), StreamedSource(spark, str(tmp_path / "retained")))
        assert report.holds and report.streamed == report.walked > 50

        offsets = sorted((job._retained.folder / "kafka-checkpoint" / "offsets").glob("[0-9]*"))[-1]
        offsets.write_text("v1\n{ this is not an offset")  # a corrupt checkpoint: it is thrown away, the set knows where it is
        put_tables(engine, "more")
        publish_rest(engine.store, options(kafka_bootstrap))
        job.run_kafka(KafkaOptions(bootstrap=kafka_bootstrap, realm_instance=instance, store=url))
        report = verify_realm(backend, instance, clock, Identifiers(), StreamedSource(spark, str(tmp_path / "retained")))
        assert report.holds and report.streamed == report.walked
        assert offsets.read_text() != "v1\n{ this is not an offset"


CHAIN = [(1, "a", ""), (2, "b", "a"), (3, "c", "b"), (4, "d", "c")]


@pytest.mark.parametrize(
    ("entries", "is_linked"),
    [
        (CHAIN, True),
        (CHAIN[1:3], True),
        ([*CHAIN, CHAIN[1]], False),
        ([CHAIN[0], *CHAIN[2:]], False),
        ([*CHAIN[:2], (3, "y", "x"), CHAIN[3]], False),
        ([*CHAIN[:3], (4, "y", "x")], False),
        ([*CHAIN[:2], (2, "x", "a"), CHAIN[3]], False),
        ([*CHAIN, (4, "y", "c")], False),
        ([*CHAIN, (1, "y", "")], False),
    ],
    ids=[
        "all",
        "some",
        "one twice",
        "one missing",
        "one of another history",
        "the last",
        "two of one seq",
        "two ends",
        "two firsts",
    ],
)
def test_entries_of_a_batch_are_linked_by_their_ids(
    spark: SparkSession, entries: list[tuple[int, str, str]], is_linked: bool
) -> None:
    ddl = "realm_instance string, pointer string, seq bigint, entry_id string, previous_id string"
    rows = [(INSTANCE, pointer, *entry) for pointer in ("p", "q") for entry in (entries if pointer == "p" else CHAIN)]
    found = {one.pointer: one for one in pointer_batches(spark.createDataFrame(rows, ddl))}
    assert found["p"].is_linked is is_linked
    assert found["q"] == PointerBatch(INSTANCE, "q", 1, 4, "d", "") and found["q"].follows(0, "")


class TwoHistories:
    """A store that was put back to a backup and continued, and all that a topic holds then: both histories."""

    def __init__(self, spark: SparkSession, streamed: Streamed, folder: Path, lost_steps: int, new_steps: int) -> None:
        streamed.steps(12)
        streamed.job().run()
        shutil.copytree(streamed.folder, folder / "retained")
        streamed.steps(4)  # behind the set, and in the backup
        with sqlite3.connect(f"{folder.parent}/lake.db") as lake:
            lake.execute(f"VACUUM INTO '{folder}/lake.db'")
        lake.close()
        self.lost = streamed
        streamed.steps(lost_steps)
        self.restored = Streamed(spark, folder)
        realm = self.restored.realm
        realm.clock.micros = streamed.realm.clock.micros
        realm.chance.seed(99)
        realm.logs = {
            name: log[: realm.row(name).seq]
            for name, log in streamed.realm.logs.items()
            if realm.backend.read_pointer(INSTANCE, name)
        }
        realm.states = {
            at: state for at, state in streamed.realm.states.items() if at[0] in realm.logs and at[1] <= len(realm.logs[at[0]])
        }
        realm.states |= {(name, 0): {} for name in realm.logs}
        self.restored.steps(new_steps)
        read = spark.read.format("headwater").option("realm", INSTANCE)
        both = [read.option("store", one.url).load() for one in (streamed, self.restored)]
        self.topic = both[0].unionByName(both[1])


@pytest.mark.parametrize(("lost_steps", "new_steps"), [(10, 25), (25, 8)], ids=["lost is shorter", "lost is longer"])
def test_a_batch_with_two_histories_adds_the_one_that_the_store_contains(
    spark: SparkSession, streamed: Streamed, tmp_path: Path, lost_steps: int, new_steps: int
) -> None:
    """Of a pointer that has not moved since the backup, the topic tells of the lost history alone."""
    folder = tmp_path / "restored"
    folder.mkdir()
    two = TwoHistories(spark, streamed, folder, lost_steps, new_steps)
    job = two.restored.job()
    before = job.state()
    job._add_batch(two.topic, 0)
    assert job.state().number > before.number and not lag(two.restored.realm.store, job.state())
    two.restored.compare()
    job._add_batch(two.topic, 1)  # what was read comes again, with what was lost
    two.restored.compare()
    two.restored.realm.clock.move(4 * HOUR)
    report = two.restored.realm.sweep(source=StreamedSource(spark, two.restored.folder))
    assert not report.failures and report.swept == [INSTANCE]
    two.restored.realm.check_states()
    two.restored.realm.backend.close()


def test_a_set_that_ends_in_a_lost_history_is_seeded_again_and_then_skips_lost_entries(
    spark: SparkSession, streamed: Streamed, tmp_path: Path
) -> None:
    folder = tmp_path / "restored"
    folder.mkdir()
    two = TwoHistories(spark, streamed, folder, 10, 25)
    two.lost.job().run()  # the set has read all that was lost
    shutil.rmtree(folder / "retained")
    shutil.copytree(two.lost.folder, folder / "retained")
    job = two.restored.job()
    with pytest.raises(RetainedIncomplete, match="not in this log"):
        job._add_batch(two.topic, 0)
    job._seed()
    job._add_batch(two.topic, 0)
    two.restored.compare()
    two.restored.realm.backend.close()


def test_rows_removed_while_a_set_is_read_fail_the_read_in_any_session(spark: SparkSession, streamed: Streamed) -> None:
    streamed.steps(5)
    state = seed(streamed.realm.backend, streamed.store)
    tolerant = spark.newSession()
    tolerant.conf.set("spark.sql.files.ignoreMissingFiles", "true")
    tolerant.conf.set("spark.sql.files.ignoreCorruptFiles", "true")
    found = intervals(tolerant, state)
    assert found.count() > 0
    for file in Path(state.folders[0]).glob("*.parquet"):
        file.unlink()
    with pytest.raises(SparkFailed), typed_errors():
        found.count()


def test_an_object_that_came_back_after_its_release_is_kept(spark: SparkSession, tmp_path: Path) -> None:
    """No writer does that; a set that meets it keeps too much, never too little."""
    rows = [SetRow("p", 1, 7, 1, True), SetRow("p", 1, 7, 2, False), SetRow("p", 1, 7, 3, True), SetRow("p", 1, 8, 1, True)]
    rows += [SetRow("p", 1, 8, 2, False)]
    store = RetainedStore(tmp_path, INSTANCE)
    state = store.append(
        None, {"p": SegmentPosition(1, 4, "d")}, [Bounds("p", 1)], lambda to: write_rows(to, iter(rows)), fresh=True
    )
    assert {row.id for row in retained_ids(spark, state, {"p": 4}).collect()} == {7}


def test_a_store_that_was_put_back_to_a_backup_and_went_on_has_its_set_seeded_again(
    spark: SparkSession, streamed: Streamed, tmp_path: Path
) -> None:
    streamed.steps(10)
    backup = tmp_path / "backup"
    backup.mkdir()
    with sqlite3.connect(f"{tmp_path}/lake.db") as lake:
        lake.execute(f"VACUUM INTO '{backup}/lake.db'")
    lake.close()
    streamed.steps(20)
    streamed.job().run()
    shutil.copytree(streamed.folder, backup / "retained")
    restored = Streamed(spark, backup)
    restored.realm.clock.micros = streamed.realm.clock.micros
    restored.realm.write()  # another entry, of a seq that the set knows
    before = restored.job().state()
    assert any(restored.realm.row(name).seq < at.seq for name, at in before.positions.items())
    report = restored.realm.sweep(source=StreamedSource(spark, restored.folder))
    assert report.swept == [] and "not in this log" in report.failures[0]
    assert restored.job().run().number > before.number
    restored.compare()
    restored.realm.backend.close()
