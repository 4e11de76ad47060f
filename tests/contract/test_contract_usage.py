"""Usage measured on every database: each row counted, bytes estimated, slice by slice, and forgotten with its realm."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headwater.persistence.realms.realm_init import CreatePointer
from headwater.persistence.records.idempotency_rows import IdempotencyRows, KeyedRequest
from headwater.persistence.rows import Table
from headwater.persistence.store import Store, open_store
from headwater.service.usage.collector import UsageCollector
from headwater.service.usage.measurement import Measuring, MeasuringOptions
from headwater.service.usage.usage_records import UsageRecord, all_usage, read_usage, write_usage


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    with open_store(store_url) as opened:
        yield opened


def test_every_row_is_counted_and_its_bytes_are_estimated(store: Store, realm: str) -> None:
    kernel = store.kernel(realm)
    for number in range(3):
        kernel.committer.commit(f"p{number}", CreatePointer(author="test"))
    asked = KeyedRequest(principal="p", key="k", route="r", fingerprint=b"f")
    IdempotencyRows(kernel).claim(asked, "r", "o", running_seconds=1, kept_seconds=60)
    ticks = iter(range(10**9))
    measuring = Measuring(store, MeasuringOptions(slice_seconds=1, sample_every=2), lambda: float(next(ticks)))
    slices = 1
    while not measuring.slice():
        slices += 1
        assert slices < 10_000
    usage = read_usage(kernel)
    counted = {(one.table, one.type): one.rows for one in usage.types}
    assert counted[Table.POINTERS.value, ""] == counted[Table.NAMES.value, ""] == 3
    assert counted[Table.OBJECTS.value, "entry"] == 3 and counted[Table.MUTABLE.value, "idempotency"] == 1
    assert usage.measured and usage.rows == sum(counted.values()) and all(one.bytes > 0 for one in usage.types)
    lines = [sample for family in UsageCollector(store).collect() for sample in family.samples]
    assert any(line.labels == {"realm": kernel.realm_name, "table": "objects", "type": "entry"} for line in lines)


def test_a_realm_without_rows_is_forgotten(store: Store, realm: str) -> None:
    write_usage(store, realm, UsageRecord(1, []))
    assert realm in dict(all_usage(store))
    measuring = Measuring(store, MeasuringOptions())
    while not measuring.slice():
        pass
    assert realm not in dict(all_usage(store))
    assert read_usage(store.kernel(realm)).measured is None
