"""Lines enter; a short text leaves that tells two traces apart."""

from __future__ import annotations

import zlib


class Digest:
    def __init__(self) -> None:
        self._sum = 0
        self._lines = 0

    def add(self, line: str) -> None:
        self._sum = zlib.crc32(line.encode(), self._sum)
        self._lines += 1

    def text(self) -> str:
        return f"{self._lines}:{self._sum:08x}"
