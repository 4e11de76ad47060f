"""Lists a commit and its ancestors, newest first, filtered, down to a limit, in pages."""

from __future__ import annotations

import time
from typing import Any

import msgspec

from headwater.persistence.log.log_entry import LogRecord
from headwater.persistence.store import RealmKernel
from headwater.producer.history.lineage import Lineage
from headwater.schemas.errors import CursorExpired, ObjectNotFound
from headwater.service.nessie.operations.cel_values import commit_value, operation_values
from headwater.service.nessie.operations.filters import FILTER_SECONDS_MAX, CelFilter

PAGE_COMMITS_MAX = 1_000
COMMITS_SCANNED_MAX = 10_000


class HistoryPage(msgspec.Struct, frozen=True):
    commits: list[LogRecord]
    following: str | None
    """The commit that the next page begins with; None at the end of history, or where it was cut."""


def read_history(
    kernel: RealmKernel, newest: LogRecord, *, stop: bytes | None, limit: int | None, filter: CelFilter | None, operations: bool
) -> HistoryPage:
    """`stop` is the last commit that is listed. `operations` says whether the filter may look at them."""
    limit = min(limit or PAGE_COMMITS_MAX, PAGE_COMMITS_MAX)
    deadline = time.monotonic() + FILTER_SECONDS_MAX
    found: list[LogRecord] = []
    try:
        for scanned, commit in enumerate(Lineage(kernel).backward(newest)):
            full = len(found) == limit or scanned == COMMITS_SCANNED_MAX
            if full or (filter is not None and scanned and time.monotonic() > deadline):
                return HistoryPage(found, commit.entry_id.hex())
            if filter is None or _passes(filter, commit, operations):
                found.append(commit)
            if commit.entry_id == stop:
                break
    except (CursorExpired, ObjectNotFound):
        return HistoryPage(found, None)
    return HistoryPage(found, None)


def _passes(filter: CelFilter, commit: LogRecord, operations: bool) -> bool:
    values: dict[str, Any] = {"commit": commit_value(commit) if "commit" in filter.names else {}}
    values["operations"] = operation_values(commit) if operations and "operations" in filter.names else []
    return filter.matches(values)
