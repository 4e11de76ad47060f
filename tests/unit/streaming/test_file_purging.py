"""Purges continue in case of errors, count only what was confirmed, and never delete a container before what it names."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence

import pytest

from headwater.schemas.errors import LocationForbidden, StorageDenied, StoreUnavailable
from headwater.streaming.files.batches import REMEMBERED_FILES, distinct
from headwater.streaming.files.kinds import FileKind, FileRef, FoundFile
from headwater.streaming.files.limits import Rate
from headwater.streaming.files.purging import OUTAGE_FAILURES, Purge, PurgeSpec
from headwater.streaming.files.stats import PurgeStats
from headwater.streaming.files.stores.object_store import Deleted, ObjectStore
from tests.support.faults.manual_clock import ManualClock

Fault = Callable[[Sequence[str]], Exception | None]


class RecordingStore:
    """Deletes from a set, and fails where a test says so."""

    batch_max = 1_000

    def __init__(self, files: Sequence[str], fault: Fault = lambda _: None) -> None:
        self.files = set(files)
        self.requests: list[list[str]] = []
        self._fault = fault

    def delete(self, locations: Sequence[str]) -> Deleted:
        self.requests.append(list(locations))
        error = self._fault(locations)
        if error is not None:
            raise error
        here = self.files & set(locations)
        self.files -= here
        return Deleted(len(here), len(locations) - len(here))

    def list(self, prefix: str) -> Iterator[list[FoundFile]]:
        raise NotImplementedError

    def folders(self, prefix: str) -> Sequence[str]:
        raise NotImplementedError

    def head(self, location: str) -> FoundFile | None:
        raise NotImplementedError

    def read(self, location: str, bytes_max: int) -> bytes:
        raise NotImplementedError


class OneStore:
    """Every location is of one storage, except those of an unknown scheme."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def of(self, location: str) -> ObjectStore:
        if not location.startswith("s3://"):
            raise LocationForbidden("unknown", field="location")
        return self._store


def purge(store: RecordingStore, files: Sequence[FileRef], clock: ManualClock | None = None, **spec: object) -> PurgeStats:
    chosen = PurgeSpec(**spec)  # type: ignore[arg-type]
    return Purge(OneStore(store), chosen, clock or ManualClock(), random.Random(0)).run(files)


def data(number: int, referrer: str = "s3://b/m1") -> FileRef:
    return FileRef(f"s3://b/{number}.parquet", FileKind.DATA, 10, referrer)


TABLE = [
    *(data(number) for number in range(5)),
    FileRef("s3://b/m1", FileKind.MANIFEST, 3, "s3://b/list"),
    FileRef("s3://b/list", FileKind.MANIFEST_LIST, None, "s3://b/meta"),
    FileRef("s3://b/meta", FileKind.METADATA),
]


def test_a_container_is_in_a_later_request_than_what_it_names() -> None:
    store = RecordingStore([file.location for file in TABLE])
    stats = purge(store, TABLE)
    assert not store.files
    assert store.requests == [
        [f"s3://b/{number}.parquet" for number in range(5)],
        ["s3://b/m1"],
        ["s3://b/list"],
        ["s3://b/meta"],
    ]
    assert (stats.requested, stats.purged, stats.failed, stats.batches) == (8, 8, 0, 4)


def test_a_file_that_cannot_be_deleted_keeps_its_containers() -> None:
    def denied(locations: Sequence[str]) -> Exception | None:
        return StorageDenied("no.") if "s3://b/3.parquet" in locations else None

    store = RecordingStore([file.location for file in TABLE], denied)
    stats = purge(store, TABLE)
    assert store.files == {"s3://b/3.parquet", "s3://b/m1", "s3://b/list", "s3://b/meta"}
    assert (stats.purged, stats.failed, stats.spared) == (4, 1, 3)
    assert [one.location for one in stats.failures] == ["s3://b/3.parquet"]


def test_a_container_whose_files_are_not_known_is_spared_with_those_above_it() -> None:
    unread = [
        FileRef("s3://b/m1", FileKind.MANIFEST, 3, "s3://b/list", complete=False),
        FileRef("s3://b/m2", FileKind.MANIFEST, 3, "s3://b/list"),
        FileRef("s3://b/list", FileKind.MANIFEST_LIST, None, "s3://b/meta", complete=False),
        FileRef("s3://b/meta", FileKind.METADATA, complete=False),
    ]
    store = RecordingStore([file.location for file in unread])
    stats = purge(store, unread)
    assert store.files == {"s3://b/m1", "s3://b/list", "s3://b/meta"}
    assert (stats.purged, stats.spared) == (1, 3)


def test_a_failing_key_is_found_by_halving() -> None:
    def fails(locations: Sequence[str]) -> Exception | None:
        return StoreUnavailable("InternalError") if "s3://b/77.parquet" in locations else None

    files = [data(number) for number in range(200)]
    store = RecordingStore([file.location for file in files], fails)
    stats = purge(store, files)
    assert store.files == {"s3://b/77.parquet"}
    assert (stats.purged, stats.failed) == (199, 1)
    assert stats.retries > 0


def test_an_outage_ends_after_a_bounded_number_of_requests_and_nothing_counts_as_purged() -> None:
    files = [data(number) for number in range(1_000)]
    store = RecordingStore([file.location for file in files], lambda _: StoreUnavailable("connection refused"))
    stats = purge(store, files)
    assert (stats.purged, stats.failed) == (0, 1_000)
    assert len(store.requests) <= OUTAGE_FAILURES + 4
    assert len(stats.failures) == 100


def test_work_continues_after_an_outage() -> None:
    broken = True

    def fails(locations: Sequence[str]) -> Exception | None:
        return StoreUnavailable("timeout") if broken and "s3://b/0.parquet" in locations else None

    files = [data(number) for number in range(500)]
    store = RecordingStore([file.location for file in files], fails)
    assert purge(store, files).purged == 499
    broken = False
    assert purge(store, files).purged == 1


def test_missing_files_are_a_success_and_are_counted_apart() -> None:
    store = RecordingStore(["s3://b/0.parquet"])
    stats = purge(store, [data(0), data(1)])
    assert (stats.purged, stats.missing, stats.failed) == (1, 1, 0)


def test_a_file_named_several_times_is_deleted_once() -> None:
    store = RecordingStore(["s3://b/0.parquet"])
    stats = purge(store, [data(0), data(0, "s3://b/m2"), data(0)])
    assert store.requests == [["s3://b/0.parquet"]]
    assert stats.requested == 1


def test_the_memory_of_files_seen_is_bounded() -> None:
    files = (data(number) for number in [0, *range(1, REMEMBERED_FILES + 2), 0])
    assert sum(1 for _ in distinct(files)) == REMEMBERED_FILES + 3


def test_a_dry_run_deletes_nothing() -> None:
    store = RecordingStore([file.location for file in TABLE])
    stats = purge(store, TABLE, dry_run=True)
    assert (stats.requested, stats.purged, store.requests) == (8, 0, [])


def test_spared_files_do_not_keep_their_containers() -> None:
    store = RecordingStore([file.location for file in TABLE])
    stats = purge(store, TABLE, may_delete=lambda file: file.location != "s3://b/3.parquet")
    assert store.files == {"s3://b/3.parquet"}
    assert (stats.purged, stats.spared) == (7, 1)


def test_a_location_on_unknown_storage_is_counted_as_failed() -> None:
    store = RecordingStore([])
    stats = purge(store, [FileRef("hdfs://x/y", FileKind.DATA)])
    assert (stats.failed, store.requests) == (1, [])


def test_nothing_is_deleted_after_the_check_before_a_batch_refuses() -> None:
    store = RecordingStore([file.location for file in TABLE])
    calls = iter([None, StoreUnavailable("the lease has ended")])

    def check() -> None:
        error = next(calls)
        if error is not None:
            raise error

    with pytest.raises(StoreUnavailable):
        purge(store, TABLE, before_request=check)
    assert len(store.requests) == 1


def test_a_lease_that_ends_while_a_request_waits_or_is_repeated_ends_the_purge() -> None:
    """Back-off, halving and slow rates may take longer than the lease that was checked before the batch."""
    clock = ManualClock()
    start = clock.micros
    store = RecordingStore([file.location for file in TABLE], lambda _: StoreUnavailable("SlowDown"))

    def check() -> None:
        if clock.micros - start > 3 * 1_000_000:
            raise StoreUnavailable("the lease has ended")

    with pytest.raises(StoreUnavailable, match="lease has ended"):
        purge(store, TABLE, clock, before_request=check, batches_per_second=1)
    assert 1 <= len(store.requests) <= 3
    slow = RecordingStore([file.location for file in TABLE])
    start = clock.micros
    with pytest.raises(StoreUnavailable, match="lease has ended"):
        purge(slow, TABLE, clock, before_request=check, files_per_second=1)
    assert len(slow.requests) == 1


def test_rates_bound_files_and_batches() -> None:
    clock = ManualClock()
    files = [data(number) for number in range(1_000)]
    purge(RecordingStore([]), files, clock, batch_size=100, files_per_second=100, batches_per_second=0)
    assert 8.9 < clock.slept_seconds < 10.1
    clock = ManualClock()
    purge(RecordingStore([]), files, clock, batch_size=100, batches_per_second=2)
    assert 4.4 < clock.slept_seconds < 5.1


def test_throttling_halves_the_rate_which_recovers_within_time() -> None:
    clock = ManualClock()
    rate = Rate(100, clock)
    rate.slow_down()
    assert rate.per_second() == 50
    rate.slow_down()
    assert rate.per_second() == 25
    clock.move(60)
    assert rate.per_second() == pytest.approx(26.25)
    clock.move(3_600)
    assert rate.per_second() == 100


def test_an_unlimited_rate_is_limited_after_throttling() -> None:
    clock = ManualClock()
    rate = Rate(0, clock)
    rate.take(1_000_000)
    assert clock.slept_seconds == 0
    rate.slow_down()
    rate.take(100)
    rate.take(1)
    assert clock.slept_seconds > 1
