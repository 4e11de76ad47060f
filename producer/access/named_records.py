"""The records of one kind under one pointer, each with a name: reads, pages and commits them."""

from __future__ import annotations

from collections.abc import Sequence

from headwater.persistence.commit.commit_outcome import CommitOutcome
from headwater.persistence.records.records import (
    PAGE_RECORDS_MAX,
    Expectation,
    Record,
    RecordOperation,
    RecordState,
    head_records,
)
from headwater.persistence.store import RealmKernel
from headwater.producer.access.writing import WriteMeta, check_name, commit_records, expected_version, not_found, version_of
from headwater.schemas.change import KeyPath


class NamedRecords:
    """Nothing is remembered between calls."""

    def __init__(self, kernel: RealmKernel, pointer: str, what: str, below: KeyPath = ()) -> None:
        """`what` they are called in errors; `below` comes before the name in their keys."""
        self._kernel = kernel
        self._pointer = pointer
        self._what = what
        self._below = below

    def key(self, name: str) -> KeyPath:
        return (*self._below, name)

    def state(self) -> RecordState:
        return head_records(self._kernel, self._pointer)

    def read(self, name: str) -> Record:
        record = self.state().get(self.key(check_name(name, self._what)))
        if record is None:
            raise not_found(self._what, name)
        return record

    def page(self, after: str = "", limit: int = PAGE_RECORDS_MAX) -> Sequence[Record]:
        """In order of name, after `after`."""
        return self.state().page(self._below, after=self.key(after) if after else None, limit=limit)

    def commit(self, operations: Sequence[RecordOperation], meta: WriteMeta, message: str) -> CommitOutcome:
        return commit_records(self._kernel, self._pointer, operations, meta, message)


def unchanged(record: Record, version: str | None) -> Expectation:
    """Expects the version that the caller has read, or else the one that was read here."""
    return expected_version(version if version is not None else version_of(record))
