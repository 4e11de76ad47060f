"""Calls a Thrift service over TCP in the binary protocol. Structs are dictionaries by the numbers of their fields.

⚠ An answer is bounded in bytes, time and depth, whatever lengths it claims: nothing is reserved before its bytes have come.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from headwater.schemas.errors import SourceRefused, SourceUnreachable

TIMEOUT_SECONDS = 30.0
"""Without a byte."""
ANSWER_SECONDS_MAX = 300.0
ANSWER_BYTES_MAX = 64 * 1024 * 1024
DEPTH_MAX = 32
_CALL, _EXCEPTION, _VERSION = 1, 3, 0x80010000
_STOP, _BOOL, _I32, _I64, _TEXT, _STRUCT, _MAP, _SET, _LIST = 0, 2, 8, 10, 11, 12, 13, 14, 15
_NUMBERS = {3: "!b", 4: "!d", 6: "!h", _I32: "!i", _I64: "!q"}
Fields = dict[int, Any]


class ThriftCalls:
    """One connection, made with the first call."""

    def __init__(
        self, address: str, port: int, *, monotonic: Callable[[], float] = time.monotonic, bytes_max: int = ANSWER_BYTES_MAX
    ) -> None:
        self._address, self._port = address, port
        self._monotonic, self._bytes_max = monotonic, bytes_max
        self._socket: socket.socket | None = None

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def call(self, method: str, *fields: bytes) -> Fields:
        """The fields of the result: 0 is what the method returns, any other one an exception that it declares."""
        sent = struct.pack("!I", _VERSION | _CALL) + _text(method) + struct.pack("!i", 0) + b"".join(fields) + b"\0"
        try:
            if self._socket is None:
                self._socket = socket.create_connection((self._address, self._port), TIMEOUT_SECONDS)
            self._socket.sendall(sent)
            return self._result(method, _Answer(self._socket, self._monotonic, self._bytes_max))
        except OSError as error:
            self.close()
            raise SourceUnreachable(f"{method}: {type(error).__name__}: {error}.", field="uri") from error
        except Exception:
            self.close()  # the rest of the answer belongs to no call
            raise

    def _result(self, method: str, answer: _Answer) -> Fields:
        version = answer.number("!I")
        if version & 0xFFFF0000 != _VERSION:
            raise SourceRefused(f"{method}: the answer is not of Thrift's binary protocol.", field="uri")
        answer.text()
        answer.number("!i")
        found = answer.fields(0)
        if version & 0xFF == _EXCEPTION:
            raise SourceRefused(f"{method}: the source answered: {str(found.get(1, ''))[:300]}", field="uri")
        return found


class _Answer:
    def __init__(self, connection: socket.socket, monotonic: Callable[[], float], bytes_max: int) -> None:
        self._file = connection.makefile("rb")
        self._monotonic, self._until, self._left = monotonic, monotonic() + ANSWER_SECONDS_MAX, bytes_max

    def _bytes(self, count: int) -> bytes:
        self._left -= count
        if count < 0 or self._left < 0:
            raise SourceRefused("the answer is larger than any that is read.", field="uri")
        parts, missing = [], count
        while missing:
            if self._monotonic() > self._until:
                raise SourceUnreachable(f"the answer took longer than {ANSWER_SECONDS_MAX:.0f} seconds.", field="uri")
            part = self._file.read1(min(missing, 65_536))
            if not part:
                raise SourceUnreachable("the source ended the connection.", field="uri")
            parts.append(part)
            missing -= len(part)
        return b"".join(parts)

    def number(self, format: str) -> int:
        return int(struct.unpack(format, self._bytes(struct.calcsize(format)))[0])

    def text(self) -> str:
        return self._bytes(self.number("!i")).decode(errors="replace")

    def fields(self, depth: int) -> Fields:
        found: Fields = {}
        while (kind := self.number("!b")) != _STOP:
            id = self.number("!h")
            found[id] = self._value(kind, depth)
        return found

    def _value(self, kind: int, depth: int) -> Any:
        if depth > DEPTH_MAX:
            raise SourceRefused(f"the answer nests deeper than {DEPTH_MAX}.", field="uri")
        if kind == _BOOL:
            return self._bytes(1) != b"\0"
        if kind in _NUMBERS:
            return struct.unpack(_NUMBERS[kind], self._bytes(struct.calcsize(_NUMBERS[kind])))[0]
        if kind == _TEXT:
            return self.text()
        if kind == _STRUCT:
            return self.fields(depth + 1)
        if kind == _MAP:
            keys, values, count = self.number("!b"), self.number("!b"), self.number("!i")
            return {self._value(keys, depth + 1): self._value(values, depth + 1) for _ in range(count)}
        if kind in (_LIST, _SET):
            items, count = self.number("!b"), self.number("!i")
            return [self._value(items, depth + 1) for _ in range(count)]
        raise SourceRefused(f"the answer has a value of kind {kind}.", field="uri")


# ── arguments ───────────────────────────────────────────────────────────────────────────────────────────────


def text_field(id: int, value: str) -> bytes:
    return _field(_TEXT, id) + _text(value)


def i32_field(id: int, value: int) -> bytes:
    return _field(_I32, id) + struct.pack("!i", value)


def i64_field(id: int, value: int) -> bytes:
    return _field(_I64, id) + struct.pack("!q", value)


def struct_field(id: int, *fields: bytes) -> bytes:
    return _field(_STRUCT, id) + b"".join(fields) + b"\0"


def texts_field(id: int, values: Sequence[str]) -> bytes:
    return _field(_LIST, id) + struct.pack("!bi", _TEXT, len(values)) + b"".join(map(_text, values))


def text_map_field(id: int, values: Mapping[str, str]) -> bytes:
    pairs = b"".join(_text(name) + _text(value) for name, value in values.items())
    return _field(_MAP, id) + struct.pack("!bbi", _TEXT, _TEXT, len(values)) + pairs


def _field(kind: int, id: int) -> bytes:
    return struct.pack("!bh", kind, id)


def _text(value: str) -> bytes:
    raw = value.encode()
    return struct.pack("!i", len(raw)) + raw
