"""Reads a body within its budget: bytes, elements, time, and what its sender may keep in memory at once.

⚠ What is refused is read on and dropped for a while: a caller that is still sending hears no answer.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Awaitable, Callable, Hashable

from headwater.schemas.errors import HeadwaterError, InvalidInput, RequestTooLarge, RequestTooSlow
from headwater.service.gate.budgets import Budgets
from headwater.service.gate.route import Budget
from headwater.service.http.responses import Receive, Scope, header, one_header

SMALL_BODY_BYTES = 64 * 1024
"""Read before a right is checked that only the body determines; counted and decoded in no time."""
GZIP_WINDOW_BITS = 31
UNPACKED_PIECE_BYTES = 1024 * 1024
"""Decompressed on a thread at a time."""
DRAINED_FACTOR = 4
"""So many times the limit is read and dropped …"""
DRAINED_SECONDS_MAX = 10.0
"""… for so long."""


class _Pieces:
    """A body as it comes. ⚠ Senders choose the size of the pieces: a list of those of two bytes would take thirty times what
    they hold."""

    __slots__ = ("_first", "_more")

    def __init__(self) -> None:
        self._first = b""
        self._more: bytearray | None = None

    def append(self, piece: bytes) -> None:
        if self._more is not None:
            self._more += piece
        elif self._first:
            self._more = bytearray(self._first)
            self._more += piece
            self._first = b""
        else:
            self._first = piece

    def joined(self) -> bytes:
        return self._first if self._more is None else bytes(self._more)


class BodyReader:
    """Reads the body of one request. What it has taken from the budget is returned by `close`, when the request is answered."""

    def __init__(self, budgets: Budgets, budget: Budget, owner: Hashable, bytes_max: int) -> None:
        self._budgets = budgets
        self._budget = budget
        self._owner = owner
        self._bytes_max = bytes_max
        self._taken = 0

    async def read(self, scope: Scope, receive: Receive, on_large: Callable[[], Awaitable[None]] | None) -> bytes:
        """`on_large` refuses callers who may not send more than a small body."""
        with self._budgets.upload(self._budget, self._owner):
            body = await self._read(receive, on_large)
        encoding = one_header(scope, b"content-encoding", "Content-Encoding")
        if body and encoding is not None and encoding.lower() != b"identity":
            body = await self._unpack(body, encoding, on_large)
        if len(body) > SMALL_BODY_BYTES:
            check_elements(body, self._budget.elements_max)
        return body

    def close(self) -> None:
        self._budgets.give_bytes_back(self._owner, self._taken)
        self._taken = 0

    async def _read(self, receive: Receive, on_large: Callable[[], Awaitable[None]] | None) -> bytes:
        kept = _Pieces()
        size, refusal = 0, None
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._budget.seconds_max) as timeout:
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise InvalidInput("the request ended before its body did.", field="body", remedy="Send it again.")
                    piece: bytes = message.get("body", b"")
                    size += len(piece)
                    if refusal is None:
                        try:
                            if size > SMALL_BODY_BYTES and on_large is not None:
                                await on_large()
                                on_large = None
                            self._keep(kept, piece, size)
                        except HeadwaterError as error:
                            refusal = error
                            kept = _Pieces()
                            self.close()
                            timeout.reschedule(min(timeout.when() or 0.0, loop.time() + DRAINED_SECONDS_MAX))
                    elif size > DRAINED_FACTOR * self._bytes_max:
                        break
                    if not message.get("more_body", False):
                        break
        except TimeoutError:
            refusal = refusal or too_slow(self._budget.seconds_max)
        if refusal is not None:
            raise refusal
        return kept.joined()

    def _keep(self, kept: _Pieces, piece: bytes, size: int) -> None:
        if size > self._bytes_max:
            raise RequestTooLarge(
                f"the body has more than {self._bytes_max} bytes.",
                field="body",
                remedy=f"Send at most {self._bytes_max} bytes.",
                bytes_max=self._bytes_max,
            )
        if size > max(SMALL_BODY_BYTES, self._taken):
            self._budgets.take_bytes(self._owner, size - self._taken)
            self._taken = size
        kept.append(piece)

    async def _unpack(self, body: bytes, encoding: bytes, on_large: Callable[[], Awaitable[None]] | None) -> bytes:
        """⚠ A decompressed body obeys every limit of a plain one: of its size, of the rights that a large one needs, and of
        memory. A few kilobytes may become the largest body."""
        if encoding.lower() != b"gzip":
            raise InvalidInput(
                f"{encoding[:40].decode('latin-1')!r} is not read here.", field="Content-Encoding", remedy="Use gzip."
            )
        unpacking = zlib.decompressobj(wbits=GZIP_WINDOW_BITS)
        kept = _Pieces()
        piece = _unpacked(unpacking, body, SMALL_BODY_BYTES)
        size = len(piece)
        self._keep(kept, piece, size)
        while not unpacking.eof:
            if on_large is not None:
                await on_large()
                on_large = None
            piece = await asyncio.to_thread(_unpacked, unpacking, unpacking.unconsumed_tail, UNPACKED_PIECE_BYTES)
            if not piece and not unpacking.eof:
                raise InvalidInput("the gzip body is cut off.", field="body", remedy="Send all of it.")
            size += len(piece)
            self._keep(kept, piece, size)
        if unpacking.unused_data:
            raise InvalidInput("there are bytes after the gzip body.", field="body", remedy="Send one gzip member.")
        return kept.joined()


def check_elements(body: bytes, elements_max: int) -> None:
    """⚠ Before it is decoded: a decoder keeps everyone waiting, on a thread too. Counts at least what is there, for a comma
    within a text looks the same."""
    count = body.count(b",") + body.count(b"[") + body.count(b"{")
    if count > elements_max:
        raise RequestTooLarge(
            f"the body has up to {count} elements.",
            field="body",
            remedy=f"Send at most {elements_max}, in several requests.",
            elements_max=elements_max,
        )


async def drain(scope: Scope, receive: Receive) -> None:
    """Reads and drops the body sent to a route that takes none, as long as it is small."""
    if header(scope, b"content-length") in (None, b"0") and header(scope, b"transfer-encoding") is None:
        return
    size = 0
    try:
        async with asyncio.timeout(DRAINED_SECONDS_MAX):
            while size <= DRAINED_FACTOR * SMALL_BODY_BYTES:
                message = await receive()
                size += len(message.get("body", b""))
                if not message.get("more_body", False):
                    return
    except TimeoutError:
        raise too_slow(DRAINED_SECONDS_MAX) from None


def too_slow(seconds: float) -> RequestTooSlow:
    return RequestTooSlow(
        f"the body did not come within {seconds:g} s.", field="body", remedy="Send it again, in one go.", seconds_max=seconds
    )


def _unpacked(unpacking: zlib._Decompress, packed: bytes, bytes_max: int) -> bytes:
    try:
        return unpacking.decompress(packed, bytes_max)
    except zlib.error as error:
        raise InvalidInput(f"the body is not gzip: {error}.", field="body", remedy="Send it as it is.") from None
