"""Records (realms, principals, grants …) under a pointer, by key: writing with expectations, reading the head's.

A record is content like a table is: a type, a value, and a content id that stays while the value changes. Reading is by key or
by pages in key order, always of one state.
"""

from __future__ import annotations

import enum
import uuid
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import ClassVar, NamedTuple

import msgspec

from headwater.persistence.commit.draft import Draft, Plan, PlannedOperation
from headwater.persistence.handover.declared_requests import DECLARED_REQUESTS, DeclaredRequest
from headwater.persistence.index import IndexValue, decode_key, encode_key
from headwater.persistence.log.log_entry import Content
from headwater.persistence.reading.state import State
from headwater.persistence.store import RealmKernel
from headwater.schemas.change import KeyPath, Kind, Op, Value
from headwater.schemas.errors import (
    Fact,
    InvalidInput,
    ObjectTooLarge,
    RecordChanged,
    RecordExists,
    RecordNotFound,
)

VALUE_BYTES_MAX = 300_000
"""The largest encoded value of a record: with its type and id it must fit a row."""
PAGE_RECORDS_MAX = 1_000


class RecordType(NamedTuple):
    """The name that Changes carry, and the small number that the index does: unique among the types of one pointer."""

    name: str
    tag: int


class Record(msgspec.Struct, frozen=True, kw_only=True):
    key: KeyPath
    type: str
    value: Value
    content_id: bytes
    object_id: int
    """Changes with every write of the record."""


# ── what a write expects ────────────────────────────────────────────────────────────────────────────────────


class Expect(enum.Enum):
    ANYTHING = "anything"
    ABSENT = "absent"
    PRESENT = "present"


class Unchanged(msgspec.Struct, frozen=True, tag=True):
    """Nobody has written the record since it was read with this object id."""

    object_id: int


class ValueIs(msgspec.Struct, frozen=True, tag=True):
    """The record has this value, whoever wrote it."""

    value: Value


Expectation = Expect | Unchanged | ValueIs


class PutRecord(msgspec.Struct, frozen=True, kw_only=True, tag=True, tag_field="operation"):
    type: RecordType
    key: KeyPath
    value: Value
    expect: Expectation = Expect.ANYTHING
    content_id: bytes = msgspec.field(default_factory=lambda: uuid.uuid4().bytes)
    """The content id of a new record; the same in every attempt."""


class DeleteRecord(msgspec.Struct, frozen=True, kw_only=True, tag=True, tag_field="operation"):
    key: KeyPath
    expect: Expectation = Expect.PRESENT


RecordOperation = PutRecord | DeleteRecord


# ── writing ─────────────────────────────────────────────────────────────────────────────────────────────────


class RecordsRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One commit of records, all or none; the first expectation that does not hold is the answer. What changes nothing
    adds no entry."""

    kind: ClassVar[Kind] = Kind.COMMIT
    keys_to_read: ClassVar[tuple[bytes, ...]] = ()

    operations: Sequence[RecordOperation]
    author: str
    message: str
    headers: dict[str, str] = {}
    request_id: str = msgspec.field(default_factory=lambda: uuid.uuid4().hex)
    request_id_is_callers: bool = False
    fingerprint: bytes = b""

    def plan(self, draft: Draft) -> Plan | None:
        _check_keys_differ(self.operations)
        planned = [made for operation in self.operations if (made := _planned(operation, draft)) is not None]
        if not planned:
            return None
        return Plan(kind=Kind.COMMIT, author=self.author, message=self.message, headers=self.headers, operations=planned)


DECLARED_REQUESTS.register(
    RecordsRequest, DeclaredRequest("records", RecordsRequest, lambda request: request, lambda _, declared: declared)
)


def _planned(operation: RecordOperation, draft: Draft) -> PlannedOperation | None:
    """The operation over what the draft holds at its key; None if that is what was asked for already."""
    value = draft.find(operation.key)
    found = None if value is None else _record(operation.key, value, draft.content(value))
    _check_expectation(operation, found)
    if isinstance(operation, PutRecord):
        _check_size(operation)
        return _put(operation, found)
    if found is None or value is None:
        return None
    return PlannedOperation(
        op=Op.DELETE,
        key=operation.key,
        content_id=found.content_id,
        type=found.type,
        tag=value.tag,
        before=found.value,
        before_id=found.object_id,
    )


def _put(operation: PutRecord, found: Record | None) -> PlannedOperation | None:
    same_type = found is not None and found.type == operation.type.name
    if found is not None and same_type and found.value == operation.value:
        return None
    return PlannedOperation(
        op=Op.PUT,
        key=operation.key,
        content_id=found.content_id if found is not None and same_type else operation.content_id,
        type=operation.type.name,
        tag=operation.type.tag,
        after=operation.value,
        before=None if found is None else found.value,
        before_id=0 if found is None else found.object_id,
    )


def _check_expectation(operation: RecordOperation, found: Record | None) -> None:
    expect, key = operation.expect, list[Fact](operation.key)
    if expect is Expect.ANYTHING:
        return
    if expect is Expect.ABSENT:
        if found is not None:
            raise RecordExists(f"{_path(operation.key)} exists already.", field="key", remedy="Choose another name.", key=key)
        return
    if found is None:
        raise RecordNotFound(f"there is no {_path(operation.key)}.", field="key", key=key)
    unchanged = isinstance(expect, Unchanged) and found.object_id == expect.object_id
    same_value = isinstance(expect, ValueIs) and found.value == expect.value
    if not (expect is Expect.PRESENT or unchanged or same_value):
        raise RecordChanged(
            f"{_path(operation.key)} was changed by another writer in the meantime.",
            field="key",
            remedy="Read it again and retry.",
            key=key,
        )


def _check_size(operation: PutRecord) -> None:
    size = len(msgspec.msgpack.encode(operation.value))
    if size > VALUE_BYTES_MAX:
        raise ObjectTooLarge(
            f"{_path(operation.key)} would take {size} bytes.",
            field="value",
            remedy=f"Use at most {VALUE_BYTES_MAX} bytes.",
            bytes=size,
            bytes_max=VALUE_BYTES_MAX,
        )


def _check_keys_differ(operations: Sequence[RecordOperation]) -> None:
    """Each operation is checked against the head, so two on one key would not see each other."""
    if len({operation.key for operation in operations}) < len(operations):
        raise InvalidInput("one request writes a record twice.", field="operations", remedy="Send one operation for each key.")


# ── reading ─────────────────────────────────────────────────────────────────────────────────────────────────


class RecordState:
    """The records of a pointer after one of its entries: pages of one state fit together."""

    def __init__(self, state: State | None) -> None:
        self._state = state

    @property
    def seq(self) -> int:
        """The seq of the entry; 0 while the pointer has none."""
        return 0 if self._state is None else self._state.logged.entry.seq

    def get(self, key: KeyPath) -> Record | None:
        encoded = encode_key(key)
        value = None if self._state is None else self._state.index.get(encoded)
        return None if value is None else next(iter(self._records([(encoded, value)])))

    def page(self, under: KeyPath = (), *, after: KeyPath | None = None, limit: int = PAGE_RECORDS_MAX) -> list[Record]:
        """Up to `limit` records below a path in key order; the next page continues after the key of the last one."""
        if not 1 <= limit <= PAGE_RECORDS_MAX:
            raise InvalidInput(f"a page of {limit} records.", field="limit", remedy=f"Use 1 to {PAGE_RECORDS_MAX}.")
        if self._state is None:
            return []
        found = self._state.index.under(under, after=None if after is None else encode_key(after))
        return self._records(list(islice(found, limit)))

    def all(self, under: KeyPath = (), *, after: KeyPath | None = None) -> Iterator[Record]:
        page = self.page(under, after=after, limit=PAGE_RECORDS_MAX)
        while page:
            yield from page
            page = self.page(under, after=page[-1].key, limit=PAGE_RECORDS_MAX) if len(page) == PAGE_RECORDS_MAX else []

    def _records(self, found: Sequence[tuple[bytes, IndexValue]]) -> list[Record]:
        if self._state is None:
            return []
        contents = self._state.contents(value for _, value in found)
        return [_record(decode_key(key), value, contents[value.object_id]) for key, value in found]


def head_records(kernel: RealmKernel, pointer: str) -> RecordState:
    """The newest acknowledged state; an empty one where nothing was ever committed."""
    row = kernel.read_pointer(pointer)
    return RecordState(None if row is None or not row.head else State(kernel, kernel.walk.header(row.head)))


def _record(key: KeyPath, value: IndexValue, content: Content) -> Record:
    return Record(key=key, type=content.type, value=content.value, content_id=content.content_id, object_id=value.object_id)


def _path(key: KeyPath) -> str:
    return repr("/".join(key))
