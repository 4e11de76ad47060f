"""The operations that a caller can commit to a catalog: put, delete, rename, unchanged.

Every check that needs no head is made here, on the caller's thread, once, however often the operations are applied afterwards.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

import msgspec

from headwater.persistence.index.keys import encode_key
from headwater.producer.content.content_types import AnyContent, TypedValue, to_value
from headwater.producer.random_ids import random_bytes
from headwater.schemas.change import KeyPath, Op
from headwater.schemas.entry_ids import content_id_text
from headwater.schemas.errors import InvalidInput

OPERATIONS_MAX = 100_000
"""Maximum number of operations in one commit."""

NewContentId: TypeAlias = Callable[[], bytes]


class Put(msgspec.Struct, frozen=True):
    """Set a key, new or not, unless an expectation says otherwise. A content that is there keeps its content id."""

    key: KeyPath
    content: AnyContent
    expected: AnyContent | None = None
    """The key must hold just this."""
    expected_content_id: str | None = None
    """The key must hold the content of this id."""
    must_not_exist: bool = False
    content_id: str | None = None
    """The id that a new content gets instead of a fresh one; what is there already must have it."""


class Delete(msgspec.Struct, frozen=True):
    key: KeyPath
    expected: AnyContent | None = None
    expected_content_id: str | None = None


class Rename(msgspec.Struct, frozen=True):
    """Move a content to a key that is free; it keeps its content id."""

    from_key: KeyPath
    key: KeyPath
    expected: AnyContent | None = None
    expected_content_id: str | None = None


class Unchanged(msgspec.Struct, frozen=True):
    """A read that must still hold: nothing is written for it. Without an expectation it is compared with the base commit."""

    key: KeyPath
    expected: AnyContent | None = None
    expected_content_id: str | None = None
    must_not_exist: bool = False


CatalogOperation: TypeAlias = Put | Delete | Rename | Unchanged


class Prepared(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One operation, checked. `op` is None for a read that must still hold."""

    op: Op | None
    key: KeyPath
    from_key: KeyPath | None = None
    content: TypedValue | None = None
    """The content that a put sets."""
    content_id: bytes = b""
    """What a put gives to a content that is new."""
    content_id_is_callers: bool = False
    expected: TypedValue | None = None
    expected_content_id: bytes = b""
    must_not_exist: bool = False

    @property
    def source(self) -> KeyPath:
        """The key whose content is expected, removed or replaced."""
        return self.key if self.from_key is None else self.from_key

    @property
    def expects_something(self) -> bool:
        return self.must_not_exist or self.expected is not None or bool(self.expected_content_id)


class PreparedOperations(msgspec.Struct, frozen=True, gc=False):
    operations: tuple[Prepared, ...]
    encoded: dict[KeyPath, bytes]
    """Every key that an operation names, with its encoding."""


def operations_fingerprint(prepared: PreparedOperations, message: str) -> bytes:
    """A digest of what a commit asks for: the same commit sent again has the same one, on any worker. Content ids that were
    chosen here are not part of it."""
    canonical = [
        (one.op, one.key, one.from_key, one.content, one.content_id if one.content_id_is_callers else b"")
        for one in prepared.operations
    ]
    return hashlib.sha256(msgspec.msgpack.encode((message, canonical), order="deterministic")).digest()[:16]


def prepare(operations: Sequence[CatalogOperation], new_content_id: NewContentId | None = None) -> PreparedOperations:
    """`InvalidInput` names the first operation that is not valid. ⚠ Content ids are chosen here and not when the
    operations are applied, so that applying them again means the same."""
    if not 1 <= len(operations) <= OPERATIONS_MAX:
        raise InvalidInput(
            f"a commit has {len(operations)} operations.", field="operations", remedy=f"Send 1 to {OPERATIONS_MAX}."
        )
    new_content_id = new_content_id or _random_content_id
    encoded: dict[KeyPath, bytes] = {}
    prepared = []
    for position, operation in enumerate(operations):
        field = f"operations[{position}]"
        one = _prepare(operation, field, new_content_id)
        for key in (one.key,) if one.from_key is None else (one.key, one.from_key):
            raw = _encoded(key, field)
            if key in encoded:
                raise InvalidInput(
                    f"the key {'.'.join(key)!r} occurs twice.", field=f"{field}.key", remedy="Touch each key once in a commit."
                )
            encoded[key] = raw
        prepared.append(one)
    return PreparedOperations(tuple(prepared), encoded)


def encoded_keys(operations: Iterable[Prepared]) -> dict[KeyPath, bytes]:
    """The encoded keys of operations that were prepared before."""
    keys = (key for one in operations for key in (one.key, one.from_key) if key is not None)
    return {key: encode_key(key) for key in keys}


def _prepare(operation: CatalogOperation, field: str, new_content_id: NewContentId) -> Prepared:
    if not isinstance(operation, CatalogOperation):
        raise InvalidInput(
            f"{type(operation).__name__} is not an operation.", field=field, remedy="Use Put, Delete, Rename or Unchanged."
        )
    expected = None if operation.expected is None else to_value(operation.expected, f"{field}.expected")
    expected_content_id = _content_id(operation.expected_content_id, field, "expected_content_id")
    key = _key(operation.key, field)
    match operation:
        case Put():
            _one_expectation(operation, field)
            given = _content_id(operation.content_id, field, "content_id")
            return Prepared(
                op=Op.PUT,
                key=key,
                content=to_value(operation.content, f"{field}.content"),
                content_id=given or new_content_id(),
                content_id_is_callers=bool(given),
                expected=expected,
                expected_content_id=expected_content_id,
                must_not_exist=operation.must_not_exist,
            )
        case Delete():
            return Prepared(op=Op.DELETE, key=key, expected=expected, expected_content_id=expected_content_id)
        case Rename():
            return Prepared(
                op=Op.RENAME,
                key=key,
                from_key=_key(operation.from_key, field),
                expected=expected,
                expected_content_id=expected_content_id,
            )
        case Unchanged():
            _one_expectation(operation, field)
            return Prepared(
                op=None,
                key=key,
                expected=expected,
                expected_content_id=expected_content_id,
                must_not_exist=operation.must_not_exist,
            )


def _one_expectation(operation: Put | Unchanged, field: str) -> None:
    if operation.must_not_exist and (operation.expected is not None or operation.expected_content_id is not None):
        raise InvalidInput(
            "it must not exist and is expected to be something.", field=field, remedy="Leave out one of the two."
        )


def _key(key: Sequence[str], field: str) -> KeyPath:
    if type(key) is tuple:  # the usual case, without asking an abstract class
        return key
    if isinstance(key, str) or not isinstance(key, Sequence):
        raise InvalidInput("a key is a list of names.", field=f"{field}.key", remedy='Send e.g. ["db", "orders"].')
    return tuple(key)


def _encoded(key: KeyPath, field: str) -> bytes:
    try:
        return encode_key(key)
    except InvalidInput as error:
        raise InvalidInput(error.message, field=f"{field}.key", remedy=error.remedy) from None


def _content_id(text: str | None, field: str, name: str) -> bytes:
    if text is None:
        return b""
    try:
        raw = uuid.UUID(text).bytes
    except (ValueError, AttributeError, TypeError):
        raise InvalidInput(
            f"{str(text)[:80]!r} is not a content id.", field=f"{field}.{name}", remedy="Content ids are UUIDs."
        ) from None
    if content_id_text(raw) != text.lower():
        raise InvalidInput(f"{text!r} is not a content id.", field=f"{field}.{name}", remedy="Write UUIDs with four hyphens.")
    return raw


def _random_content_id() -> bytes:
    """A random UUID's bytes, without the detour over its object: every put makes one."""
    raw = bytearray(random_bytes(16))
    raw[6] = raw[6] & 0x0F | 0x40
    raw[8] = raw[8] & 0x3F | 0x80
    return bytes(raw)
