"""The log's data source as Spark's Python workers call it: offsets, splits, filters and refusals, without a JVM."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
    StringContains,
    StringStartsWith,
)
from pyspark.sql.types import StructType

import headwater
from headwater.embedded import Headwater
from headwater.schemas.change import Change
from headwater.schemas.errors import (
    CursorExpired,
    CursorReset,
    HeadwaterError,
    InvalidInput,
    InvalidStoreUrl,
    PointerNotFound,
    RealmNotFound,
)
from headwater.streaming.sources.log_offsets import offset_of, shares
from headwater.streaming.sources.log_source import LogReader, LogSource, LogStreamReader
from headwater.streaming.sources.open_stores import opened_store
from tests.support.fixtures.restorable_stores import SqliteStore
from tests.support.fixtures.spark_lakes import cut_history, fill, logged_changes, put_tables

MAIN = "cat/1/heads/main"
Places = list[tuple[str, int]]


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Filled once; each test gets a copy."""
    folder = tmp_path_factory.mktemp("filled")
    with headwater.open(url_of(folder), create=True) as engine:
        fill(engine)
    return folder


@pytest.fixture
def engine(filled: Path, tmp_path: Path) -> Iterator[Headwater]:
    shutil.copytree(filled, tmp_path, dirs_exist_ok=True)
    with headwater.open(url_of(tmp_path)) as engine:
        yield engine


def url_of(folder: Path) -> str:
    return f"sqlite:///{folder}/lake.db"


def reader(folder: Path, *filters: Filter, **options: Any) -> LogReader:
    source = LogSource({"store": url_of(folder), **{name: str(value) for name, value in options.items()}})
    made = source.reader(StructType())
    list(made.pushFilters(list(filters)))
    return made


def stream(folder: Path, **options: Any) -> LogStreamReader:
    source = LogSource({"store": url_of(folder), **{name: str(value) for name, value in options.items()}})
    return source.streamReader(StructType())


def read(made: LogReader) -> list[dict[str, Any]]:
    return [row for share in made.partitions() for batch in made.read(share) for row in batch.to_pylist()]


def places(made: LogReader) -> Places:
    return [(row["pointer"], row["seq"]) for row in read(made)]


def logged(engine: Headwater) -> list[Change]:
    return logged_changes(engine.realm().kernel)


def logged_head(engine: Headwater) -> int:
    return max(change.seq for change in logged(engine) if change.pointer == MAIN)


def drained(made: LogStreamReader, start: dict[str, Any] | None = None) -> tuple[list[Places], dict[str, Any]]:
    """What Spark does with a stream until it offers nothing more; a restart plans an empty batch first."""
    batches: list[Places] = []
    if start is None:
        start = made.initialOffset()
    else:
        assert made.partitions(start, start) == []
    while (end := made.latestOffset()) != start:
        shares = made.partitions(start, end)
        batches.append(
            [(row["pointer"], row["seq"]) for share in shares for batch in made.read(share) for row in batch.to_pylist()]
        )
        start = end
    return batches, start


def test_a_read_is_the_log_in_order_of_each_pointer(tmp_path: Path, engine: Headwater) -> None:
    assert places(reader(tmp_path, changes_per_split=4)) == [(change.pointer, change.seq) for change in logged(engine)]


@pytest.mark.parametrize(
    ("filters", "keeps"),
    [
        ([EqualTo(("pointer",), MAIN)], lambda it: it.pointer == MAIN),
        ([In(("pointer",), (MAIN, "catalogs"))], lambda it: it.pointer in (MAIN, "catalogs")),
        ([StringStartsWith(("pointer",), "cat/1/tags/")], lambda it: it.pointer.startswith("cat/1/tags/")),
        ([GreaterThan(("seq",), 3), LessThan(("seq",), 9)], lambda it: 3 < it.seq < 9),
        ([GreaterThanOrEqual(("seq",), 3), LessThanOrEqual(("seq",), 9)], lambda it: 3 <= it.seq <= 9),
        ([EqualTo(("seq",), 5)], lambda it: it.seq == 5),
        ([EqualTo(("seq",), 5), EqualTo(("seq",), 6)], lambda it: False),
        ([In(("kind",), ("merge", "assign"))], lambda it: it.kind in ("merge", "assign")),
        ([EqualTo(("kind",), "delete"), EqualTo(("kind",), "create")], lambda it: False),
    ],
)
def test_filters_that_are_pushed_down_give_exact_results(
    tmp_path: Path, engine: Headwater, filters: list[Filter], keeps: Callable[[Change], bool]
) -> None:
    made = LogSource({"store": url_of(tmp_path)}).reader(StructType())
    assert list(made.pushFilters(filters)) == []
    assert places(made) == [(change.pointer, change.seq) for change in logged(engine) if keeps(change)]


def test_filters_that_the_log_does_not_know_are_left_to_spark(tmp_path: Path, engine: Headwater) -> None:
    foreign = [EqualTo(("author",), "ada"), StringContains(("pointer",), "main"), EqualTo(("base", "seq"), 1)]
    made = LogSource({"store": url_of(tmp_path)}).reader(StructType())
    assert list(made.pushFilters([EqualTo(("seq",), 5), *foreign])) == foreign


@pytest.mark.parametrize("bound", [GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual, EqualTo])
def test_a_time_range_is_found_without_reading_entries_outside_it(
    tmp_path: Path, engine: Headwater, bound: type[Filter]
) -> None:
    rows = read(reader(tmp_path))
    middle = sorted(row["time"] for row in rows if row["pointer"] == MAIN)[8]
    compare: dict[type[Filter], Callable[[Any], bool]] = {
        GreaterThan: lambda time: time > middle,
        GreaterThanOrEqual: lambda time: time >= middle,
        LessThan: lambda time: time < middle,
        LessThanOrEqual: lambda time: time <= middle,
        EqualTo: lambda time: time == middle,
    }
    narrowed = reader(tmp_path, bound(("time",), middle))  # type: ignore[call-arg]
    expected = [(row["pointer"], row["seq"]) for row in rows if compare[bound](row["time"])]
    assert places(narrowed) == expected
    assert sum(share.last - share.after for share in narrowed.partitions()) == len(expected)


def test_a_batch_is_shared_evenly_and_small_logs_go_whole() -> None:
    assert shares({"busy": 1_000, "small": 3, "other": 500}, 101) == {"small": 3, "other": 49, "busy": 49}
    assert sum(shares({str(number): 7 for number in range(50)}, 20).values()) <= 20
    assert shares({"one": 5}, 100) == {"one": 5}


def test_batches_are_bounded_and_together_the_log(tmp_path: Path, engine: Headwater) -> None:
    batches, _ = drained(stream(tmp_path, changes_per_batch=7, poll_seconds=0.01))
    assert max(map(len, batches)) <= 7
    assert sorted(place for batch in batches for place in batch) == [(it.pointer, it.seq) for it in logged(engine)]


def test_a_restarted_stream_continues_in_bounded_batches(tmp_path: Path, engine: Headwater) -> None:
    _, end = drained(stream(tmp_path, poll_seconds=0.01))
    put_tables(engine, *"abcdefgh")
    engine.realm().catalog("lake").create_branch("later")
    batches, _ = drained(stream(tmp_path, changes_per_batch=2, poll_seconds=0.01), end)
    assert max(map(len, batches)) <= 2
    assert sum(map(len, batches)) == 9


def test_a_running_stream_sees_moves_of_other_processes(tmp_path: Path, engine: Headwater) -> None:
    made = stream(tmp_path, poll_seconds=0.01)
    _, end = drained(made)
    put_tables(engine, "more")
    assert drained(made, end)[0] == [[(MAIN, logged_head(engine))]]


def test_a_stream_until_its_start_offers_no_later_entries(tmp_path: Path, engine: Headwater) -> None:
    made = stream(tmp_path, until="start", changes_per_batch=5)
    start = made.initialOffset()
    end = made.latestOffset()
    made.partitions(start, end)
    put_tables(engine, "late")
    batches, last = drained(made, end)
    assert last["pointers"][MAIN][0] == logged_head(engine) - 1
    assert batches


def test_newer_versions_of_spark_may_report_their_position(tmp_path: Path, engine: Headwater) -> None:
    made = stream(tmp_path, changes_per_batch=3, poll_seconds=0.01)
    start = made.initialOffset()
    end = made.latestOffset(start, None)
    assert made.latestOffset(start, None) == end != made.latestOffset(end, None)


def test_a_job_at_latest_that_dies_before_the_first_change_delivers_it_after_a_restart(
    tmp_path: Path, engine: Headwater
) -> None:
    died = stream(tmp_path, after="latest")
    start, end = died.initialOffset(), died.latestOffset()
    assert end != start, "Spark writes down what is news"
    put_tables(engine, "late")
    again = stream(tmp_path, after="latest", poll_seconds=0.01)
    assert again.partitions(again.initialOffset(), end) == []
    assert drained(again, end)[0] == [[(MAIN, logged_head(engine))]]


def test_a_first_batch_that_is_repeated_begins_where_it_began(tmp_path: Path, engine: Headwater) -> None:
    died = stream(tmp_path, pointers=MAIN, changes_per_batch=5)
    start, end = died.initialOffset(), died.latestOffset()
    planned = [(share.after, share.last) for share in died.partitions(start, end)]
    again = stream(tmp_path, pointers=MAIN)
    assert [(share.after, share.last) for share in again.partitions(again.initialOffset(), end)] == planned
    cut_history(engine, MAIN)
    with pytest.raises(CursorExpired):
        again.partitions(stream(tmp_path, pointers=MAIN).initialOffset(), end)


@pytest.mark.parametrize("after", ["earliest", "latest", "3", "time", "commit"])
def test_a_read_begins_after_its_cursor(tmp_path: Path, engine: Headwater, after: str) -> None:
    of_main = [change for change in logged(engine) if change.pointer == MAIN]
    cursor = {"time": of_main[4].time, "commit": of_main[4].commit_id}.get(after, after)
    behind = {"earliest": 0, "latest": len(of_main), "3": 3, "time": 5, "commit": 5}[after]
    assert places(reader(tmp_path, pointers=MAIN, after=cursor)) == [(MAIN, change.seq) for change in of_main[behind:]]


def test_truncated_history_is_reported_before_anything_is_read(tmp_path: Path, engine: Headwater) -> None:
    _, end = drained(stream(tmp_path, poll_seconds=0.01))
    put_tables(engine, "a", "b", "c")
    cut_history(engine, MAIN)
    with pytest.raises(CursorExpired):
        drained(stream(tmp_path, poll_seconds=0.01), end)


def test_history_that_is_cut_while_a_task_reads_fails_the_task(tmp_path: Path, engine: Headwater) -> None:
    made = stream(tmp_path, pointers=MAIN)
    planned = made.partitions(made.initialOffset(), made.latestOffset())
    cut_history(engine, MAIN)
    with pytest.raises(CursorExpired):
        list(made.read(planned[0]))


def test_a_log_that_was_replaced_is_noticed_by_its_entry_ids(tmp_path: Path, engine: Headwater) -> None:
    made = stream(tmp_path, pointers=MAIN)
    start, end = made.initialOffset(), made.latestOffset()
    end["pointers"][MAIN][1] = "0" * 64
    with pytest.raises(CursorReset):
        list(made.read(made.partitions(start, end)[0]))
    middle = {**start, "pointers": {MAIN: [2, "0" * 64]}}
    with pytest.raises(CursorReset):
        list(made.read(made.partitions(middle, made.latestOffset())[0]))


@pytest.mark.parametrize("reaches", ["less far", "as far"])
def test_a_reader_of_entries_lost_in_a_restore_is_reset_and_does_not_wait_for_their_numbers(
    tmp_path: Path, engine: Headwater, reaches: str
) -> None:
    store = SqliteStore(tmp_path)
    store.back_up()
    put_tables(engine, "lost")
    running = stream(tmp_path, pointers=MAIN, poll_seconds=0.01)
    _, end = drained(running)
    assert running.latestOffset() == end
    store.restore()
    with headwater.open(url_of(tmp_path)) as fresh:
        if reaches == "as far":
            put_tables(fresh, "other")
        opened_store(url_of(tmp_path)).restores.check()  # once a second by itself
        for made in (running, stream(tmp_path, pointers=MAIN, poll_seconds=0.01)):
            with pytest.raises(CursorReset):
                made.partitions(end, end)
                made.latestOffset(end)
        with pytest.raises(CursorReset):
            reader(tmp_path, pointers=MAIN, after=offset_of(end).as_text()).partitions()


def test_a_reader_before_the_entries_lost_in_a_restore_continues(tmp_path: Path, engine: Headwater) -> None:
    store, seen = SqliteStore(tmp_path), stream(tmp_path, poll_seconds=0.01)
    _, end = drained(seen)
    store.back_up()
    put_tables(engine, "lost")
    store.restore()
    with headwater.open(url_of(tmp_path)) as fresh:
        put_tables(fresh, "kept")
        opened_store(url_of(tmp_path)).restores.check()
        for made in (seen, stream(tmp_path, poll_seconds=0.01)):
            batches, _ = drained(made, end)
            assert batches == [[(MAIN, max(change.seq for change in logged(fresh) if change.pointer == MAIN))]]


def test_a_realm_that_was_recreated_is_not_taken_for_the_old_one(tmp_path: Path, engine: Headwater) -> None:
    engine.create_realm("r")
    _, end = drained(stream(tmp_path, realm="r", poll_seconds=0.01))
    for step in (engine.realms.deactivate, engine.realms.purge, engine.realms.finish_purge, engine.realms.delete):
        step("r")
    engine.create_realm("r")
    with pytest.raises(CursorReset):
        drained(stream(tmp_path, realm="r", poll_seconds=0.01), end)


def test_only_the_columns_that_are_named_are_read(tmp_path: Path, engine: Headwater) -> None:
    some = LogSource({"store": url_of(tmp_path), "columns": "objects_added, seq,pointer"})
    assert some.schema() == "pointer string, seq bigint, objects_added array<bigint>"
    readers = [source.reader(StructType()) for source in (some, LogSource({"store": url_of(tmp_path)}))]
    slim, full = ([batch for part in made.partitions() for batch in made.read(part)] for made in readers)
    assert slim and [batch.to_pylist() for batch in slim] == [batch.select(slim[0].schema.names).to_pylist() for batch in full]


@pytest.mark.parametrize(
    ("options", "refusal", "says"),
    [
        ({"pointer": MAIN}, InvalidInput, "no option 'pointer'"),
        ({"columns": "seq,colour"}, InvalidInput, "no column 'colour'"),
        ({"changes_per_batch": "0"}, InvalidInput, "changes_per_batch"),
        ({"realm": "nowhere"}, RealmNotFound, "nowhere"),
        ({"pointers": "cat/9/heads/main"}, PointerNotFound, "cat/9/heads/main"),
        ({"after": "7"}, InvalidInput, "a place in one log"),
        ({"after": "{}"}, InvalidInput, "offset"),
        ({"until": "{}"}, InvalidInput, "offset"),
        ({"after": '{"realm": "other#1", "pointers": {}}'}, CursorReset, "other#1"),
        ({"store": "nothing://x"}, InvalidStoreUrl, "nothing://"),
        ({"store": ""}, InvalidInput, "needs the option 'store'"),
    ],
)
def test_invalid_options_are_refused_in_one_line(
    tmp_path: Path, engine: Headwater, options: dict[str, str], refusal: type[HeadwaterError], says: str
) -> None:
    with pytest.raises(refusal) as refused:
        LogSource({"store": url_of(tmp_path), **options}).reader(StructType()).partitions()
    assert says in str(refused.value) and "\n" not in str(refused.value)


def test_a_store_in_memory_is_refused_for_workers_are_other_processes() -> None:
    with headwater.open("memory://spark", create=True), pytest.raises(InvalidInput, match="one process only"):
        LogSource({"store": "memory://spark"}).reader(StructType()).partitions()
