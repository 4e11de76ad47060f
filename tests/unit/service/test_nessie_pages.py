"""Pages that filter end in time, between any two things, and the next page continues right behind."""

from __future__ import annotations

import secrets

import pytest

import headwater
from headwater import IcebergTable, Put
from headwater.service.nessie.operations import entries
from headwater.service.nessie.operations.entries import read_entries
from headwater.service.nessie.operations.filters import ENTRY_NAMES, FILTER_SECONDS_MAX, CelFilter
from headwater.service.nessie.operations.key_ranges import KeyRange

KEYS = [(f"k{number:03}",) for number in range(60)]


class SlowClock:
    """A filter takes a quarter of a page's time at each key."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        self.now += FILTER_SECONDS_MAX / 4
        return self.now


def test_a_page_of_entries_ends_in_time_within_a_bulk_and_loses_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entries, "time", SlowClock())
    filter = CelFilter("entry.key != 'k003'", ENTRY_NAMES)
    with headwater.open(f"memory://{secrets.token_hex(6)}", create=True) as engine:
        lake = engine.ensure_realm().ensure_catalog("lake")
        lake.branch().commit([Put(key, IcebergTable("s3://t")) for key in KEYS])
        kernel, at = lake.realm.kernel, lake.references.resolve("main").logged
        found, after, pages = [], b"", 0
        while True:
            page = read_entries(kernel, at, KeyRange(), after=after, limit=None, filter=filter)
            found += [entry.key for entry in page.entries]
            pages += 1
            assert len(page.entries) <= 5, "the time was not looked at between two keys"
            if page.last is None:
                break
            after = page.last
    assert found == [key for key in KEYS if key != ("k003",)] and pages >= 12
