"""Lists the keys at which two states differ, with both contents, filtered, in pages."""

from __future__ import annotations

import time

import msgspec

from headwater.persistence.index import encode_key, just_after
from headwater.persistence.log.log_entry import LogRecord
from headwater.persistence.store import RealmKernel
from headwater.producer.merging.changed_keys import BULK_KEYS, ChangedKey, changed_keys
from headwater.schemas.errors import ObjectNotFound, ReferenceNotFound
from headwater.service.nessie.operations.cel_values import key_value
from headwater.service.nessie.operations.filters import CelFilter
from headwater.service.nessie.operations.key_ranges import KeyRange

PAGE_DIFFS_MAX = 5_000
SECONDS_MAX = 2.0
"""Then a page ends early, with a token."""


class DiffPage(msgspec.Struct, frozen=True):
    changes: list[ChangedKey]
    last: bytes | None
    """The key after which the next page begins; None after the last page."""


def read_diff(
    kernel: RealmKernel,
    before: LogRecord,
    after: LogRecord,
    range: KeyRange,
    *,
    behind: bytes,
    limit: int | None,
    filter: CelFilter | None,
) -> DiffPage:
    lower, upper = range.bounds()
    limit = min(limit or PAGE_DIFFS_MAX, PAGE_DIFFS_MAX)
    since = max(lower, just_after(behind)) if behind else lower
    deadline = time.monotonic() + SECONDS_MAX
    found: list[ChangedKey] = []
    last = behind
    try:
        wanted = BULK_KEYS if filter or range.keys else limit + 1  # one more tells whether another page follows
        for change in changed_keys(kernel, before, after, since=since, until=upper, wanted=wanted):
            key = encode_key(change.key)
            if len(found) == limit or (last != behind and time.monotonic() > deadline):
                return DiffPage(found, last)
            last = key
            if (not range.keys or change.key in range.keys) and (
                filter is None or filter.matches({"key": key_value(change.key)})
            ):
                found.append(change)
    except ObjectNotFound as gone:
        raise ReferenceNotFound("one of the two states has expired.", field="ref") from gone
    return DiffPage(found, None)
