"""Statistics of a snapshot are published whole or not at all, checked against its schema, and read in pages."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.persistence.records.records import head_records
from headwater.persistence.store import RealmKernel
from headwater.producer.access.writing import WriteMeta
from headwater.producer.statistics import statistics_write
from headwater.producer.statistics.chunk_merge import merged_chunks, sorted_runs
from headwater.producer.statistics.column_order import decode_bound
from headwater.producer.statistics.statistics_checks import SnapshotSchema
from headwater.producer.statistics.statistics_chunks import CHUNK_TYPE, ChunkRef, ChunkStore, ChunkWriter, StatisticsRow
from headwater.producer.statistics.statistics_journal import JOURNAL_SECONDS, JOURNAL_TYPE, WRITE_SECONDS_MAX
from headwater.producer.statistics.statistics_records import SetKey
from headwater.producer.statistics.statistics_sets import StatisticsSets, clean_statistics
from headwater.producer.statistics.statistics_write import PutSummary
from headwater.schemas.errors import Conflict, CursorExpired, HeadwaterError, InvalidInput, ObjectTooLarge, RecordNotFound
from headwater.schemas.statistics import (
    ColumnStatistics,
    DistinctCount,
    FileStatistics,
    Histogram,
    PutMode,
    Sketch,
    TableStatistics,
)
from tests.support.faults.manual_clock import ManualClock
from tests.support.fixtures.catalog_lake import EMBEDDED, embedded_url, open_lake

META = WriteMeta("tests")
KEY = SetKey("6f0c1f3e-0000-4000-8000-000000000001", 7)
SCHEMA = SnapshotSchema({1: "long", 2: "string", 3: "double", 4: None, **dict.fromkeys(range(10, 3_000), "long")})


def long(value: int) -> bytes:
    return struct.pack("<q", value)


def column(id: int = 1, **given: Any) -> ColumnStatistics:
    return ColumnStatistics(column_id=id, **({"value_count": 10, "null_count": 1} | given))


def file(number: int, **given: Any) -> FileStatistics:
    return FileStatistics(path=f"s3://lake/t/{number:06d}.parquet", row_count=number, **given)


class Rig:
    def __init__(self, kernel: RealmKernel, clock: ManualClock) -> None:
        self.kernel, self.clock = kernel, clock
        self.sets = StatisticsSets(kernel, 1)

    def put(self, *rows: Any, mode: PutMode = PutMode.UPSERT, request_id: str | None = None) -> PutSummary:
        write = self.sets.write(KEY, SCHEMA, mode)
        for row in rows:
            if isinstance(row, TableStatistics):
                write.put_table(row)
            elif isinstance(row, ColumnStatistics):
                write.add_column(row)
            else:
                write.add_file(row)
        return write.publish(msgspec.structs.replace(META, request_id=request_id))

    def columns(self, limit: int = 1_000) -> list[ColumnStatistics]:
        return self._all(self.sets.columns, limit)

    def files(self, limit: int = 1_000) -> list[FileStatistics]:
        return self._all(self.sets.files, limit)

    def _all(self, read: Any, limit: int) -> list[Any]:
        page = read(KEY, limit=limit)
        found = list(page.rows)
        while page.next_token:
            page = read(KEY, token=page.next_token, limit=limit)
            assert 1 <= len(page.rows) <= limit
            found += page.rows
        return found

    def rows_of(self, type: str) -> int:
        return len(list(self.kernel.store.backend.all_mutable(self.kernel.realm, type)))

    def seq(self) -> int:
        return head_records(self.kernel, self.sets.pointer).seq


@pytest.fixture(params=EMBEDDED)
def rig(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Rig]:
    clock = ManualClock()
    with open_lake(embedded_url(request.param, tmp_path), clock=clock) as lake:
        yield Rig(lake.kernel, clock)


def test_a_set_is_one_small_change_and_reads_back(rig: Rig) -> None:
    full = column(
        lower=long(-3),
        upper=long(8),
        nan_count=0,
        distinct=DistinctCount(count=4, sketches=[Sketch(type="apache-datasketches-theta-v1", data=b"\x01")]),
        histogram=Histogram(bounds=[long(-3), long(0), long(8)], counts=[4, 5]),
    )
    files = [file(number, columns=[column(1), column(2)]) for number in range(3_000)]
    summary = rig.put(TableStatistics(row_count=10, properties={"b": "2", "a": "1"}), column(3), full, *reversed(files))
    assert (summary.columns_sent, summary.files_sent, summary.outcome.seq, rig.seq()) == (2, 3_000, 1, 1)
    assert rig.columns() == [full, column(3)]
    assert rig.files(limit=7) == files
    there = rig.sets.find(KEY)
    assert there is not None and there.stored.table == TableStatistics(row_count=10, properties={"a": "1", "b": "2"})
    assert (there.stored.columns, there.stored.files) == (2, 3_000)
    assert len(msgspec.json.encode(there.stored)) < 1_000, "the Change carries totals, not rows"


def test_rows_in_any_order_and_many_runs_become_sorted_chunks(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics_write, "RUN_BYTES", 20_000)
    files = [file(number, columns=[column(one) for one in range(10, 40)]) for number in range(2_000)]
    random.Random(7).shuffle(files)
    rig.put(*files)
    assert rig.files() == sorted(files, key=lambda one: one.path)
    assert rig.rows_of(CHUNK_TYPE) > 50


def test_modes_decide_about_rows_that_are_there(rig: Rig) -> None:
    rig.put(TableStatistics(row_count=1), column(1, value_count=1, null_count=0), column(2), file(1))
    rig.put(TableStatistics(row_count=2), column(1, value_count=2), column(3), mode=PutMode.IF_ABSENT)
    there = rig.sets.find(KEY)
    assert there is not None and there.stored.table == TableStatistics(row_count=1)
    assert rig.columns() == [column(1, value_count=1, null_count=0), column(2), column(3)]
    rig.put(column(1, value_count=5))
    assert rig.columns() == [column(1, value_count=5), column(2), column(3)]
    rig.put(column(2, value_count=9), mode=PutMode.REPLACE)
    assert rig.columns() == [column(2, value_count=9)]
    assert rig.files() == [file(1)], "kinds that are not sent stay"


def test_equal_statistics_add_no_entry(rig: Rig) -> None:
    first = rig.put(TableStatistics(row_count=1), column(1), file(1))
    again = rig.put(TableStatistics(row_count=1), column(1), file(1), mode=PutMode.REPLACE)
    assert first.outcome.changed and not again.outcome.changed
    assert again.set == first.set and rig.seq() == 1


def test_a_request_id_publishes_once(rig: Rig) -> None:
    rig.put(column(1), request_id="once")
    rig.put(column(1, value_count=3))
    replayed = rig.put(column(1), request_id="once")
    assert replayed.outcome.replayed and rig.seq() == 2
    assert rig.columns() == [column(1, value_count=3)]


@pytest.mark.parametrize(
    ("row", "field"),
    [
        (column(5), "columns[0].column_id"),
        (column(-1), "columns[0].column_id"),
        (column(null_count=11), "columns[0].null_count"),
        (column(nan_count=10), "columns[0].null_count"),
        (column(value_count=-1), "columns[0].value_count"),
        (column(size_bytes=2**63), "columns[0].size_bytes"),
        (column(lower=long(2), upper=long(1)), "columns[0].lower"),
        (column(lower=b"\x01"), "columns[0].lower"),
        (column(2, upper=b"\xff"), "columns[0].upper"),
        (column(3, upper=struct.pack("<d", float("nan"))), "columns[0].upper"),
        (column(4, lower=b""), "columns[0].lower"),
        (column(distinct=DistinctCount(count=-1)), "columns[0].distinct.count"),
        (column(distinct=DistinctCount(count=11)), "columns[0].distinct.count"),
        (column(distinct=DistinctCount(count=1, sketches=[Sketch(type="t", data=b"x" * 70_000)])), "sketches[0].data"),
        (column(histogram=Histogram(bounds=[long(2), long(1)], counts=[1])), "histogram.bounds[1]"),
        (column(histogram=Histogram(bounds=[long(1), long(2)], counts=[-1])), "histogram.counts[0]"),
        (column(histogram=Histogram(bounds=[long(1), long(2)], counts=[10])), "histogram.counts"),
        (column(histogram=Histogram(bounds=[long(1)], counts=[])), "columns[0].histogram"),
        (column(histogram=Histogram(bounds=[long(1), long(2)], counts=[1, 1])), "columns[0].histogram"),
        (TableStatistics(row_count=-1), "table.row_count"),
        (TableStatistics(row_count=1, properties={str(one): "" for one in range(101)}), "table.properties"),
        (FileStatistics(path=" ", row_count=1), "files[0].path"),
        (FileStatistics(path="a", row_count=-1), "files[0].row_count"),
        (file(1, columns=[column(1), column(1)]), "files[0].columns[1]"),
        (file(1, columns=[column(5)]), "files[0].columns[0].column_id"),
        (file(1, columns=[column(one) for one in range(10, 2_999)]), "files[0]"),
    ],
)
def test_what_contradicts_itself_or_the_schema_is_refused_by_field(rig: Rig, row: Any, field: str) -> None:
    with pytest.raises((InvalidInput, ObjectTooLarge)) as refused:
        rig.put(column(3), row) if isinstance(row, TableStatistics | FileStatistics) else rig.put(row)
    assert field in str(refused.value.field) and refused.value.remedy
    assert rig.seq() == 0 and rig.sets.find(KEY) is None


def test_a_repeated_row_publishes_nothing(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidInput, match="twice"):
        rig.put(column(1), column(2), column(1))
    with pytest.raises(InvalidInput, match="twice"):
        rig.put(TableStatistics(row_count=1), TableStatistics(row_count=1))
    monkeypatch.setattr(statistics_write, "RUN_BYTES", 1)
    with pytest.raises(InvalidInput, match="twice"):
        rig.put(file(1), file(2), file(1))
    assert rig.seq() == 0


def test_two_concurrent_writes_of_one_set_lose_no_rows(rig: Rig) -> None:
    """Both have read the set before either publishes: the second merges with what the first left."""
    rig.put(column(1))
    one, other = (rig.sets.write(KEY, SCHEMA, PutMode.UPSERT) for _ in range(2))
    one.add_column(column(2))
    other.add_column(column(3))
    real, fired = one._publish, []

    def overtaken(*arguments: Any) -> PutSummary:
        if not fired:
            fired.append(other.publish(META))
        return real(*arguments)

    one._publish = overtaken  # type: ignore[method-assign]
    one.publish(META)
    assert fired and rig.columns() == [column(1), column(2), column(3)]


def test_superseded_chunks_go_after_an_hour_and_named_ones_stay(rig: Rig) -> None:
    rig.put(*(file(number) for number in range(9_000)))
    page = rig.sets.files(KEY, limit=10)
    rig.put(*(file(number) for number in range(20)), mode=PutMode.REPLACE)
    assert clean_statistics(rig.kernel) == (0, False)
    assert len(rig.sets.files(KEY, token=page.next_token, limit=1_000).rows) == 1_000, "a listing continues where it began"
    before = rig.rows_of(CHUNK_TYPE)
    rig.clock.move(JOURNAL_SECONDS + 1)
    deleted, more = clean_statistics(rig.kernel)
    assert deleted > 1 and not more and rig.rows_of(CHUNK_TYPE) == before - deleted == 2, "one manifest and one chunk are named"
    assert rig.rows_of(JOURNAL_TYPE) == 0 and len(rig.files()) == 20
    with pytest.raises(CursorExpired):
        rig.sets.files(KEY, token=page.next_token)


def test_an_abandoned_write_leaves_nothing_after_an_hour(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics_write, "RUN_BYTES", 1)
    write = rig.sets.write(KEY, SCHEMA, PutMode.UPSERT)
    write.add_column(column(1))
    assert rig.rows_of(CHUNK_TYPE) == 1
    rig.clock.move(JOURNAL_SECONDS + 1)
    assert clean_statistics(rig.kernel) == (1, False) and rig.rows_of(CHUNK_TYPE) == rig.rows_of(JOURNAL_TYPE) == 0


def test_a_write_that_took_too_long_publishes_nothing(rig: Rig) -> None:
    write = rig.sets.write(KEY, SCHEMA, PutMode.UPSERT)
    write.add_column(column(1))
    rig.clock.move(WRITE_SECONDS_MAX + 1)
    with pytest.raises(Conflict, match="longer"):
        write.publish(META)
    assert rig.seq() == 0


def test_a_write_that_the_store_was_restored_under_publishes_nothing(rig: Rig) -> None:
    """⚠ Its chunks were written into what was lost."""
    write = rig.sets.write(KEY, SCHEMA, PutMode.UPSERT)
    write.add_column(column(1))
    rig.kernel.store.restores.went_back("a test says so")
    with pytest.raises(Conflict, match="restored"):
        write.publish(META)
    assert rig.seq() == 0 and rig.put(column(1)).columns_sent == 1


def test_deleting_takes_the_chunks_along(rig: Rig) -> None:
    version = rig.put(column(1)).set.version
    rig.put(column(2))
    with pytest.raises(HeadwaterError) as changed:
        rig.sets.delete(KEY, meta=META, version=version)
    assert changed.value.code == "RECORD_CHANGED" and rig.sets.find(KEY) is not None
    rig.sets.delete(KEY, meta=META)
    with pytest.raises(RecordNotFound):
        rig.sets.delete(KEY, meta=META)
    rig.clock.move(JOURNAL_SECONDS + 1)
    clean_statistics(rig.kernel)
    assert rig.rows_of(CHUNK_TYPE) == 0 and rig.columns() == []


def test_a_token_of_another_set_or_kind_is_refused(rig: Rig) -> None:
    rig.put(*(column(one) for one in range(10, 30)), *(file(one) for one in range(20)))
    token = rig.sets.columns(KEY, limit=5).next_token
    with pytest.raises(InvalidInput, match="another listing"):
        rig.sets.files(KEY, token=token)
    with pytest.raises(InvalidInput, match="another listing"):
        rig.sets.columns(SetKey(KEY.content_id, 8), token=token)
    with pytest.raises(InvalidInput, match="not a page token"):
        rig.sets.columns(KEY, token="x")


@given(there=st.dictionaries(st.integers(0, 400), st.integers(), max_size=60), data=st.data(), old_wins=st.booleans())
@settings(max_examples=200, deadline=None)
def test_merging_equals_a_dictionary(there: dict[int, int], data: st.DataObject, old_wins: bool) -> None:
    new = data.draw(st.dictionaries(st.integers(0, 400), st.integers(), max_size=60))
    stored: dict[str, tuple[StatisticsRow, ...]] = {}
    chunk_rows = data.draw(st.integers(1, 7))

    class Written(ChunkWriter):
        def _write(self, rows: Any) -> ChunkRef:
            ref = ChunkRef(str(len(stored)), rows[0].key, rows[-1].key, len(rows), data.draw(st.sampled_from([1, 10**6])), b"")
            stored[ref.id] = tuple(rows)
            return ref

        def chunks(self, rows: Any) -> Iterator[ChunkRef]:
            held = list(rows)
            yield from (self._write(held[at : at + chunk_rows]) for at in range(0, len(held), chunk_rows))

    def rows(of: dict[int, int]) -> list[StatisticsRow]:
        return [StatisticsRow(key.to_bytes(4, "big"), str(of[key]).encode()) for key in sorted(of)]

    writer = Written(ChunkStore.__new__(ChunkStore), str)
    refs = sorted_runs([list(writer.chunks(rows(there)))], lambda ref: stored[ref.id], writer)
    merged = list(merged_chunks(refs, rows(new), lambda ref: stored[ref.id], writer, old_wins=old_wins))
    expected = new | there if old_wins else there | new
    assert [row for ref in merged for row in stored[ref.id]] == rows(expected)
    untouched = [ref for ref in refs[:-1] if not any(ref.first <= row.key <= ref.last for row in rows(new))]
    inside = [one for one in untouched if one in merged]
    gaps = [row for row in rows(new) if not any(ref.first <= row.key <= ref.last for ref in refs)]
    assert gaps or inside == untouched, "chunks that no row falls into are kept"


@pytest.mark.parametrize(
    ("type", "lesser", "greater"),
    [
        ("int", struct.pack("<i", -1), struct.pack("<i", 0)),
        ("long", struct.pack("<i", -1), long(0)),
        ("float", struct.pack("<f", -1.5), struct.pack("<f", 0.5)),
        ("double", struct.pack("<f", -1.5), struct.pack("<d", 0.5)),
        ("date", struct.pack("<i", -10), struct.pack("<i", 10)),
        ("timestamptz", long(-10), long(10)),
        ("string", b"a", "ä".encode()),
        ("uuid", b"\x00" * 16, b"\xff" * 16),
        ("fixed[3]", b"abc", b"abd"),
        ("binary", b"", b"\x00"),
        ("decimal(9, 2)", b"\xff\x00", b"\x00"),
        ("boolean", b"\x00", b"\x01"),
    ],
)
def test_bounds_compare_in_the_columns_order(type: str, lesser: bytes, greater: bytes) -> None:
    assert decode_bound(type, lesser, "lower") < decode_bound(type, greater, "upper")  # type: ignore[operator]
