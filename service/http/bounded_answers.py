"""Unpacks answers of servers that are not ours, part by part, and never more than is wanted.

⚠ A few kilobytes of gzip or zstd become gigabytes in one step of httpx's own decoders, before any length can be checked.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator

ACCEPTED = {"accept-encoding": "gzip"}
"""Sent with every request whose answer is unpacked here."""
STEP_BYTES = 64 * 1024
_GZIP_WINDOW_BITS = 31


class Unpacking:
    """Of one answer. `ValueError` for an encoding that was not asked for, and for what is not of its encoding."""

    def __init__(self, encoding: str) -> None:
        name = encoding.strip().lower()
        if name not in ("", "identity", "gzip"):
            raise ValueError(f"an answer encoded by {name[:40]!r} was not asked for")
        self._gzip = zlib.decompressobj(wbits=_GZIP_WINDOW_BITS) if name == "gzip" else None

    def parts(self, packed: bytes) -> Iterator[bytes]:
        """Of at most `STEP_BYTES`, unless nothing is packed."""
        if self._gzip is None:
            yield packed
            return
        while packed:
            try:
                yield self._gzip.decompress(packed, STEP_BYTES)
            except zlib.error as error:
                raise ValueError(f"the answer is not gzip: {error}") from error
            packed = self._gzip.unconsumed_tail

    def end(self) -> None:
        """Whether it came whole."""
        if self._gzip is not None and not self._gzip.eof:
            raise ValueError("the gzip answer is cut off")
