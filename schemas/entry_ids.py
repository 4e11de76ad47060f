"""Computes the 32-byte id of a log entry from its Change and its predecessor's id: the hash chain.

An entry id is its object id (8 bytes: one read finds it, and it sorts by time) and 24 bytes of SHA-256 over the predecessor's
entry id and the canonical Change. So the chain proves itself, and only the first 8 bytes are not determined by content.
The realm is not covered: a realm that is exported and imported under another name keeps its chain.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import msgspec

from headwater.schemas.change import COMMITTING_KINDS, KNOWN_KINDS, Change
from headwater.schemas.errors import ChainBroken, InvalidInput

ENTRY_ID_BYTES = 32
OBJECT_ID_BYTES = 8
EMPTY = hashlib.sha256(b"empty").digest()
"""The commit id of the empty state, which has no object."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ID_DIGITS = 64
_HEX_ID = re.compile(r"[0-9a-f]{64}")
_HEX_OBJECT_ID = re.compile(r"[0-9a-f]{16}")
_CONTENT_ID = re.compile(r"[0-9a-f-]*")
_canonical_bytes = msgspec.msgpack.Encoder(order="deterministic").encode

CanonicalOperation = tuple[str, Sequence[str], Sequence[str] | None, bytes, str, object, object]
"""(op, key, from_key, content id, type, before, after)"""


def chain_hash(
    previous: bytes,
    *,
    object_id: int,
    pointer: str,
    seq: int,
    kind: str,
    commit: bytes,
    parent: bytes,
    head_before: bytes,
    time_micros: int,
    author: str,
    message: str,
    headers: dict[str, str],
    request_id: str,
    operations: Sequence[CanonicalOperation],
    objects_added: Sequence[int],
    objects_released: Sequence[int],
    base: tuple[str, int, bytes] | None,
    source: tuple[str, bytes] | None,
) -> bytes:
    """The 24 bytes of the chain. `commit` is empty where the entry is itself the commit."""
    canonical = _canonical_bytes(
        (
            previous, object_id, pointer, seq, kind, commit, parent, head_before, time_micros, author, message, headers,
            request_id, operations, objects_added, objects_released, base, source,
        )
    )  # fmt: skip
    return hashlib.sha256(canonical).digest()[: ENTRY_ID_BYTES - OBJECT_ID_BYTES]


def entry_id(object_id: int, hash_part: bytes) -> bytes:
    return object_id.to_bytes(OBJECT_ID_BYTES, "big") + hash_part


def object_id_of(entry_id: bytes) -> int:
    return int.from_bytes(entry_id[:OBJECT_ID_BYTES], "big")


def recomputed_entry_id(change: Change, previous_entry_id: str) -> str:
    """The entry id that the Change must have after that predecessor (empty for the first entry), for auditors.

    Text that means the same but is not what was written (another case, another notation of the time) is `ChainBroken`.
    """
    object_id = object_id_of(_id_bytes(change.entry_id))
    hash_part = chain_hash(
        _id_bytes(previous_entry_id) if previous_entry_id else b"",
        object_id=object_id,
        pointer=change.pointer,
        seq=change.seq,
        kind=change.kind,
        commit=_commit_bytes(change),
        parent=_id_bytes(change.parent_id),
        head_before=_id_bytes(change.head_before),
        time_micros=_written_micros(change.time),
        author=change.author,
        message=change.message,
        headers=change.headers,
        request_id=change.request_id,
        operations=[
            (op.op, op.key, op.from_key, _written_content_id(op.content_id), op.type, op.before, op.after)
            for op in change.operations
        ],
        objects_added=[_written_object_id(text) for text in change.objects_added],
        objects_released=[_written_object_id(text) for text in change.objects_released],
        base=None if change.base is None else (change.base.pointer, change.base.seq, _id_bytes(change.base.commit_id)),
        source=None if change.source is None else (change.source.pointer, _id_bytes(change.source.commit_id)),
    )
    return entry_id(object_id, hash_part).hex()


def _commit_bytes(change: Change) -> bytes:
    """Empty where the entry is itself the commit; there the field repeats the entry id and nothing else covers it."""
    if change.kind not in COMMITTING_KINDS:
        return b"" if change.kind not in KNOWN_KINDS and change.commit_id == change.entry_id else _id_bytes(change.commit_id)
    if change.commit_id != change.entry_id:
        raise ChainBroken(f"{change.pointer}: entry {change.seq} is a commit, but names {change.commit_id!r}.")
    return b""


def _id_bytes(text: str) -> bytes:
    if not _HEX_ID.fullmatch(text):
        raise ChainBroken(f"{text!r} is not an id as it was written.")
    return bytes.fromhex(text)


def _written_object_id(text: str) -> int:
    if not _HEX_OBJECT_ID.fullmatch(text):
        raise ChainBroken(f"{text!r} is not an object id as it was written.")
    return int(text, 16)


def _written_content_id(text: str) -> bytes:
    raw = bytes.fromhex(text.replace("-", "")) if _CONTENT_ID.fullmatch(text) else b""
    if content_id_text(raw) != text:
        raise ChainBroken(f"{text!r} is not a content id as it was written.")
    return raw


def _written_micros(text: str) -> int:
    try:
        micros = micros_of(text)
    except InvalidInput as error:
        raise ChainBroken(f"{text!r} is not a time as it was written.") from error
    if time_text(micros) != text:
        raise ChainBroken(f"{text!r} is not a time as it was written.")
    return micros


def parse_id(text: str, *, field: str = "commit") -> bytes:
    """64 hex digits to the id; anything else is refused."""
    if not _HEX_ID.fullmatch(text):
        raise InvalidInput(f"{text!r} is not a commit or entry id.", field=field, remedy="Ids are 64 lower-case hex digits.")
    return bytes.fromhex(text)


def content_id_bytes(text: str) -> bytes:
    """A UUID's 16 bytes."""
    return bytes.fromhex(text.replace("-", ""))


def content_id_text(raw: bytes) -> str:
    text = raw.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def time_text(micros: int) -> str:
    """RFC 3339 in UTC with microseconds, always: so that text order is time order."""
    return (_EPOCH + timedelta(microseconds=micros)).isoformat(timespec="microseconds")[:-6] + "Z"


def micros_of(text: str, *, field: str = "time") -> int:
    """Microseconds of an RFC 3339 time; one without an offset is ambiguous and refused."""
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError as error:
        raise InvalidInput(
            f"{text!r} is not a time.", field=field, remedy="Use RFC 3339, e.g. 2026-01-31T12:00:00Z."
        ) from error
    if parsed.tzinfo is None:
        raise InvalidInput(f"{text!r} has no offset.", field=field, remedy="Append Z for UTC, or +hh:mm.")
    return (parsed - _EPOCH) // timedelta(microseconds=1)
