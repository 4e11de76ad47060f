"""Statistics over gRPC: streams of a client's are published whole, under one key, or not at all."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import grpc
import pytest

from headwater.schemas.rpc import common_pb2, statistics_pb2
from headwater.schemas.rpc.statistics_pb2 import ColumnStats, PutColumnStatsRequest, SnapshotRef
from tests.support.fixtures.grpc_rig import GrpcRig, bearer, grpc_rig, table_with_snapshots


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GrpcRig]:
    with grpc_rig(tmp_path_factory.mktemp("grpc-statistics")) as made:
        made.rig.commit("alpha", ("db",)).raise_for_status()
        yield made


class Statistics:
    """Of one table."""

    def __init__(self, port: GrpcRig, name: str) -> None:
        self._stub, self._owner = port.stub("TableStatisticsService"), bearer(port.rig.token("alpha"))
        self._port = port
        self.ref = SnapshotRef(table=common_pb2.ContentRef(name=table_with_snapshots(port, name, 2)), snapshot_id=1)

    def ask(self, method: str, request: Any) -> Any:
        return getattr(self._stub, method)(request, metadata=[self._owner])

    def columns(self, *columns: ColumnStats, key: str = "", **more: Any) -> PutColumnStatsRequest:
        return PutColumnStatsRequest(snapshot=self.ref, columns=columns, idempotency=common_pb2.Idempotency(key=key), **more)

    def put(self, *parts: Any) -> Any:
        return self.ask("PutColumnStats", iter(parts))

    def refused(self, *parts: Any) -> tuple[grpc.StatusCode, str]:
        before = self.seq()
        with pytest.raises(grpc.RpcError) as error:
            self.put(*parts)
        assert self.seq() == before, "nothing was published"
        return error.value.code(), error.value.details()

    def summary(self) -> Any:
        return self.ask("GetTableStats", statistics_pb2.GetTableStatsRequest(snapshot=self.ref)).stats

    def seq(self) -> int:
        kernel = self._port.rig.kernel("alpha")
        row = kernel.store.backend.read_pointer(kernel.realm, "cat/1/stats")
        return -1 if row is None else int(kernel.walk.header(row.head).entry.seq)


@pytest.fixture
def statistics(port: GrpcRig, request: pytest.FixtureRequest) -> Statistics:
    return Statistics(port, request.node.name[:60])


def column(id: int, **counts: Any) -> ColumnStats:
    return ColumnStats(column_id=id, **counts)


def long(value: int) -> bytes:
    return struct.pack("<q", value)


def test_totals_columns_and_files_are_published_listed_and_deleted(statistics: Statistics) -> None:
    assert (statistics.summary().source, statistics.summary().table.row_count) == ("snapshot-summary", 10)
    totals = statistics_pb2.PutTableStatsRequest(
        snapshot=statistics.ref, table=statistics_pb2.TableStats(row_count=0, file_count=1)
    )
    written = statistics.ask("PutTableStats", totals)
    assert written.meta.changed and written.stats.table.row_count == 0 and written.stats.table.HasField("file_count")
    before = statistics.seq()
    full = column(1, value_count=9, null_count=0, lower=long(1), upper=long(3))
    full.distinct.count = 3
    full.histogram.bounds.extend([long(1), long(3)])
    full.histogram.counts.append(9)
    assert statistics.put(statistics.columns(full)).rows == 1
    assert statistics.seq() == before + 1, "one small Change"
    files = [statistics_pb2.FileColumnStats(path=f"f{at:03d}", row_count=1, columns=[full]) for at in range(130)]
    parts = [statistics_pb2.PutFileColumnStatsRequest(snapshot=statistics.ref, files=files[:1])]
    parts += [statistics_pb2.PutFileColumnStatsRequest(files=files[at : at + 20]) for at in range(1, 130, 20)]
    assert statistics.ask("PutFileColumnStats", iter(parts)).rows == 130
    assert statistics.seq() == before + 2
    listed = statistics_pb2.ListColumnStatsRequest(snapshot=statistics.ref)
    assert list(statistics.ask("ListColumnStats", listed).columns) == [full]
    found, page = [], common_pb2.PageRequest(size=50)
    while True:
        asked = statistics_pb2.ListFileColumnStatsRequest(snapshot=statistics.ref, page=page)
        answer = statistics.ask("ListFileColumnStats", asked)
        found += list(answer.files)
        page.token = answer.page.next_token
        if not page.token:
            break
    assert found == files
    summary = statistics.summary()
    assert (summary.columns, summary.files, summary.source) == (1, 130, "published")
    assert statistics.ask("DeleteStats", statistics_pb2.DeleteStatsRequest(snapshot=statistics.ref)).meta.changed
    assert statistics.summary().source == "snapshot-summary"


def test_a_stream_under_a_key_is_published_once_however_it_is_parted(statistics: Statistics) -> None:
    rows = [column(1, value_count=5)]
    first = statistics.put(statistics.columns(*rows, key="k1"))
    again = statistics.put(statistics.columns(key="k1"), statistics.columns(*rows, key="k1"))
    assert not first.meta.replayed and again.meta.replayed and again.meta.seq == first.meta.seq == statistics.seq()
    code, said = statistics.refused(statistics.columns(column(1, value_count=6), key="k1"))
    assert code is grpc.StatusCode.FAILED_PRECONDITION and "key" in said
    assert statistics.summary().columns == 1


def test_messages_that_do_not_belong_into_one_stream_are_refused_and_publish_nothing(statistics: Statistics) -> None:
    first = statistics.columns(column(1, value_count=1), key="a")
    other_table = SnapshotRef(table=common_pb2.ContentRef(name=common_pb2.Name(catalog="lake", path=["db", "other"])))
    for part, field in (
        (PutColumnStatsRequest(snapshot=other_table), "snapshot"),
        (PutColumnStatsRequest(snapshot=SnapshotRef(table=statistics.ref.table, snapshot_id=2)), "snapshot"),
        (statistics.columns(key="b"), "two keys"),
        (statistics.columns(mode=statistics_pb2.PUT_MODE_REPLACE), "mode"),
        (statistics.columns(column(9)), "columns[1].column_id"),
        (statistics.columns(column(1, value_count=1)), "comes twice"),
        (statistics.columns(column(1, distinct=statistics_pb2.DistinctCount(count=-1))), "columns[1].distinct.count"),
        (
            statistics.columns(column(1, histogram=statistics_pb2.Histogram(bounds=[long(2), long(1)], counts=[1]))),
            "columns[1].histogram.bounds[1]",
        ),
    ):
        code, said = statistics.refused(first, part)
        assert code is grpc.StatusCode.INVALID_ARGUMENT and field in said, (field, said)
    code, _ = statistics.refused()
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert statistics.summary().source == "snapshot-summary"


def test_a_stream_that_its_client_gives_up_publishes_nothing(statistics: Statistics) -> None:
    before = statistics.seq()

    def parts() -> Iterator[Any]:
        yield statistics.columns(column(1, value_count=1))
        raise RuntimeError("the client stops")

    with pytest.raises(grpc.RpcError):
        statistics.ask("PutColumnStats", parts())
    assert statistics.seq() == before and statistics.summary().source == "snapshot-summary"


def test_a_page_of_large_rows_fits_into_a_message(statistics: Statistics) -> None:
    sketch = statistics_pb2.Sketch(type="theta", data=b"x" * 60_000)
    large = column(1, value_count=1, distinct=statistics_pb2.DistinctCount(count=1, sketches=[sketch]))
    for first in range(0, 120, 30):
        files = [
            statistics_pb2.FileColumnStats(path=f"f{at:03d}", row_count=1, columns=[large]) for at in range(first, first + 30)
        ]
        statistics.ask(
            "PutFileColumnStats", iter([statistics_pb2.PutFileColumnStatsRequest(snapshot=statistics.ref, files=files)])
        )
    found, page = [], common_pb2.PageRequest(size=1_000)
    while True:
        answer = statistics.ask(
            "ListFileColumnStats", statistics_pb2.ListFileColumnStatsRequest(snapshot=statistics.ref, page=page)
        )
        found += [one.path for one in answer.files]
        page.token = answer.page.next_token
        if not page.token:
            break
    assert found == [f"f{at:03d}" for at in range(120)]
