"""Sums over all runs of a store, and when each operation last succeeded.

The records of single runs are dropped after a while, so sums over them would go backwards. One mutable row of `::system::`
holds the sums, moved by CAS: every process adds to it, and every server shows the same numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from headwater.persistence.backend import Backend
from headwater.persistence.clock import MICROS, Clock
from headwater.persistence.coordination.cas_rows import change_row
from headwater.persistence.rows import ROW_BYTES_MAX, SYSTEM_REALM, MutableRow
from headwater.schemas.entry_ids import micros_of
from headwater.streaming.runs.run_counts import Counts, CountsByRealm, FileCounts, folded, folded_files

if TYPE_CHECKING:
    from headwater.streaming.runs.runs import RunRecord

TOTALS_TYPE = "maintenance-totals"
TOTALS_KEY = "totals"
REALMS_TOLD_APART_MAX = 500


class OperationTotals(msgspec.Struct, kw_only=True):
    runs: dict[str, int] = {}
    """By status."""
    seconds: float = 0.0
    last_seconds: float = 0.0
    last_success_at: int = 0
    """Microseconds; 0 before the first one."""
    counts: CountsByRealm = {}
    """By realm instance and type."""
    files: dict[str, FileCounts] = {}
    """By realm instance."""


class Totals(msgspec.Struct, kw_only=True):
    """The row's payload. New fields need a default."""

    operations: dict[str, OperationTotals] = {}
    kept_since: dict[str, int] = {}
    """Realm instance → how far back its feed reached when it was last expired, in microseconds."""


class RunTotals:
    def __init__(self, backend: Backend, clock: Clock) -> None:
        self._backend = backend
        self._clock = clock

    def read(self) -> Totals:
        return _totals(self._backend.read_mutable(SYSTEM_REALM, TOTALS_TYPE, TOTALS_KEY))

    def add(self, record: RunRecord) -> None:
        """Best effort: the maintenance is done whether or not it was counted. Dry runs have done nothing."""
        if record.dry_run:
            return
        change_row(
            self._backend,
            SYSTEM_REALM,
            TOTALS_TYPE,
            TOTALS_KEY,
            lambda before: _fitting(added(_totals(before), record)),
            self._clock,
        )


def added(totals: Totals, record: RunRecord) -> Totals:
    """Pure apart from `totals`, which it changes."""
    into = totals.operations.setdefault(record.operation, OperationTotals())
    status = str(record.status)
    into.runs[status] = into.runs.get(status, 0) + 1
    finished = micros_of(record.finished) if record.finished else 0
    into.last_seconds = max(0, finished - micros_of(record.started)) / MICROS if finished else 0.0
    into.seconds += into.last_seconds
    if status == "DONE" and not record.failures:
        into.last_success_at = max(into.last_success_at, finished)
    for realm, by_type in record.counts.items():
        for name, counts in by_type.items():
            into.counts.setdefault(realm, {}).setdefault(name, Counts()).add(counts)
    for realm, files in record.files.items():
        into.files.setdefault(realm, FileCounts()).add(files)
    totals.kept_since = {**totals.kept_since, **record.kept_since}
    return totals


def _totals(row: MutableRow | None) -> Totals:
    return Totals() if row is None else msgspec.msgpack.decode(row.payload, type=Totals)


def _fitting(totals: Totals) -> bytes:
    """If there are very many realms, the rest is added up under one name, so that the sums do not change."""
    realms_max = REALMS_TOLD_APART_MAX
    while True:
        payload = msgspec.msgpack.encode(totals)
        if len(payload) <= ROW_BYTES_MAX or realms_max == 0:
            return payload
        realms_max //= 2
        for operation in totals.operations.values():
            operation.counts = folded(operation.counts, realms_max)
            operation.files = folded_files(operation.files, realms_max)
        totals.kept_since = dict(list(totals.kept_since.items())[:realms_max])
