"""The messages between workers, in frames: four bytes of length, then a MessagePack list of messages."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import msgspec

from headwater.persistence.commit.commit_outcome import CommitOutcome
from headwater.persistence.commit.landed_elsewhere import HandedOver
from headwater.persistence.log.log_entry import LogRecord
from headwater.persistence.rows import PointerRow
from headwater.schemas.errors import HeadwaterError, errors_by_code

FRAME_BYTES_MAX = 256 * 1024 * 1024
_LENGTH = struct.Struct(">I")


class _Message(msgspec.Struct, frozen=True, array_like=True, tag=True, gc=False):
    pass


class Offer(_Message, frozen=True):
    """A request for a pointer, under a number of the connection."""

    number: int
    realm: str
    pointer: str
    name: str
    body: msgspec.Raw
    handed_over: HandedOver


class Outcome(_Message, frozen=True):
    number: int
    logged: LogRecord | None
    head_seq: int
    head_commit: bytes
    replayed: bool
    report: msgspec.Raw


class Refusal(_Message, frozen=True):
    number: int
    code: str
    message: str
    field: str | None
    remedy: str | None
    facts: dict[str, Any]
    """Plain values, as in any error."""
    report: msgspec.Raw


class Declined(_Message, frozen=True):
    number: int


class Moved(_Message, frozen=True):
    realm: str
    pointer: str
    row: PointerRow
    newest: LogRecord


class Ping(_Message, frozen=True):
    pass


class Pong(_Message, frozen=True):
    pass


class Closing(_Message, frozen=True):
    """Nothing new is taken; what was taken is finished."""


Message: TypeAlias = Offer | Outcome | Refusal | Declined | Moved | Ping | Pong | Closing

NO_REPORT = msgspec.Raw(msgspec.msgpack.encode(None))

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[Message]).decode


def encoded(data: msgspec.Struct) -> msgspec.Raw:
    return msgspec.Raw(_encode(data))


def frame(messages: Sequence[Message]) -> bytes:
    body = _encode(messages)
    return _LENGTH.pack(len(body)) + body


def take_frames(received: bytearray) -> Iterator[list[Message]]:
    """The messages of each frame that is whole; it is removed from what was received."""
    while len(received) >= _LENGTH.size:
        (length,) = _LENGTH.unpack_from(received)
        if length > FRAME_BYTES_MAX:
            raise ValueError(f"a frame of {length} bytes")
        end = _LENGTH.size + length
        if len(received) < end:
            return
        body = bytes(received[_LENGTH.size : end])
        del received[:end]
        yield _decode(body)


def refusal_of(number: int, error: BaseException, report: msgspec.Raw) -> Refusal:
    if isinstance(error, HeadwaterError):
        return Refusal(number, error.code, error.message, error.field, error.remedy, error.facts, report)
    return Refusal(number, HeadwaterError.code, f"{type(error).__name__}: {error}", None, None, {}, report)


def error_of(refusal: Refusal) -> HeadwaterError:
    kind = errors_by_code().get(refusal.code, HeadwaterError)
    error = kind(refusal.message, field=refusal.field, remedy=refusal.remedy)
    error.facts |= refusal.facts
    return error


def outcome_of(number: int, outcome: CommitOutcome, report: msgspec.Raw) -> Outcome:
    return Outcome(number, outcome.logged, outcome.head_seq, outcome.head_commit, outcome.replayed, report)
