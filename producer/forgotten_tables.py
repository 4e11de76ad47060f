"""Dropped tables whose history was given up: their retained versions keep no files any more.

An operator gives up the history of a table that was dropped with PURGE, so that its files need not wait until the history has
expired. Each such table is a record of the pointer `forgotten-tables`, so it is in the feed and in exports of the realm.

⚠ A state before the drop still names the table, so nothing may bring it back: creates, assigns, merges and transplants ask
here. A purge writes the record, then fences the realm, then reads the heads: whatever was planned before the record was
visible has either landed, and holds the files, or its compare-and-swap fails.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from headwater.persistence.commit.draft import PlannedOperation
from headwater.persistence.log.log_entry import LogRecord
from headwater.persistence.reading.state import State
from headwater.persistence.records.records import (
    DeleteRecord,
    Expect,
    PutRecord,
    RecordsRequest,
    RecordType,
    head_records,
)
from headwater.persistence.store import RealmKernel
from headwater.schemas.change import KeyPath
from headwater.schemas.entry_ids import content_id_text
from headwater.schemas.errors import HistoryForgotten, RecordNotFound

FORGOTTEN_TABLES = "forgotten-tables"
_TYPE = RecordType("FORGOTTEN_TABLE", 1)


class ForgottenTable(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    content_id: str
    keys: list[KeyPath]
    """Every key that it has in a retained state."""
    versions: list[int]
    """⚠ The object ids of its retained versions. Only these keep no files: whatever is committed later is another version, even
    with the same content id."""
    pointer: str
    """Of the branch that it was dropped from."""
    task_id: str
    forgotten_at: int
    """Microseconds."""
    is_settled: bool = False
    """Files of it may be gone. Until then the purge may withdraw the record, and its files are in use."""


class ForgottenTables:
    """Those of one realm."""

    def __init__(self, kernel: RealmKernel) -> None:
        self._kernel = kernel

    def all(self) -> list[ForgottenTable]:
        """A strong read; one row if no history was ever given up."""
        return [msgspec.convert(one.value, ForgottenTable) for one in head_records(self._kernel, FORGOTTEN_TABLES).all()]

    def get(self, task_id: str) -> ForgottenTable | None:
        found = head_records(self._kernel, FORGOTTEN_TABLES).get((task_id,))
        return None if found is None else msgspec.convert(found.value, ForgottenTable)

    def put(self, table: ForgottenTable, author: str) -> None:
        put = PutRecord(type=_TYPE, key=(table.task_id,), value=msgspec.to_builtins(table), expect=Expect.ANYTHING)
        self._commit(put, author, f"Forget the history of {_name(table)}")

    def withdraw(self, table: ForgottenTable, author: str) -> None:
        """The table is needed after all. ⚠ Only while none of its files was deleted."""
        try:
            self._commit(DeleteRecord(key=(table.task_id,)), author, f"Keep the history of {_name(table)}")
        except RecordNotFound:
            return

    def _commit(self, operation: PutRecord | DeleteRecord, author: str, message: str) -> None:
        request = RecordsRequest(operations=[operation], author=author, message=message)
        self._kernel.committer.commit(FORGOTTEN_TABLES, request)


def require_remembered(kernel: RealmKernel, target: LogRecord) -> None:
    """`HistoryForgotten` if the state at this entry, which is not the head of its pointer, holds a forgotten table."""
    forgotten = ForgottenTables(kernel).all()
    if not forgotten:
        return
    state = State(kernel, kernel.walk.whole(target))
    for table in forgotten:
        for key in table.keys:
            content = state.content(key)
            if content is not None and content_id_text(content.content_id) == table.content_id:
                raise history_forgotten(key)


def require_none_forgotten(kernel: RealmKernel, operations: Iterable[PlannedOperation]) -> None:
    """`HistoryForgotten` if an operation restores a forgotten table. Only keys that the branch does not have are checked:
    what it has is in use. ⚠ The content ids of merges and transplants are those of their source."""
    brought = [one for one in operations if one.after is not None and one.before is None and one.from_key is None]
    if not brought:
        return
    forgotten = {table.content_id for table in ForgottenTables(kernel).all()}
    for one in brought:
        if content_id_text(one.content_id) in forgotten:
            raise history_forgotten(one.key)


def history_forgotten(key: Sequence[str]) -> HistoryForgotten:
    return HistoryForgotten(
        f"'{'.'.join(key)}' was dropped, and its history was given up: its files are deleted, or about to be.",
        field="key",
        remedy="Use a state after the drop, or one without this table.",
        key=list(key),
    )


def _name(table: ForgottenTable) -> str:
    return ".".join(table.keys[0]) if table.keys else table.content_id
