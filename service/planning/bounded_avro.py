"""Decodes the blocks of an unpacked Avro file, and nothing beyond their end.

⚠ PyIceberg's compiled decoder believes every length in a file: it returns the process's memory behind the block, or ends the
process. Whoever writes a table writes its manifests.
"""

from __future__ import annotations

from typing import Self, TypeVar

from pyiceberg.avro.decoder import BinaryDecoder
from pyiceberg.avro.file import SYNC_SIZE, AvroFile, Block
from pyiceberg.typedef import StructProtocol

D = TypeVar("D", bound=StructProtocol)
_LONG_BYTES_MAX = 10


class BoundedDecoder(BinaryDecoder):
    __slots__ = ("_at", "_content", "_end")

    def __init__(self, content: bytes) -> None:
        self._content, self._at, self._end = content, 0, len(content)

    @property
    def is_at_end(self) -> bool:
        return self._at == self._end

    def tell(self) -> int:
        return self._at

    def read(self, n: int) -> bytes:
        at = self._at
        end = at + n
        if n < 0 or end > self._end:
            raise EOFError("a value ends behind its block")
        self._at = end
        return self._content[at:end]

    def skip(self, n: int) -> None:
        self.read(n)

    def read_int(self) -> int:
        at = self._at
        byte = self._content[at]  # IndexError behind the end
        if byte < 0x80:
            self._at = at + 1
            return (byte >> 1) ^ -(byte & 1)
        value, shift = byte & 0x7F, 7
        while True:
            at += 1
            byte = self._content[at]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift >= 7 * _LONG_BYTES_MAX:
                raise ValueError("a number is too long")
        self._at = at + 1
        return (value >> 1) ^ -(value & 1)

    def skip_int(self) -> None:
        self.read_int()


class BoundedAvroFile(AvroFile[D]):
    """⚠ Only of files that were unpacked by `avro_blocks`: their header and their blocks are as long as they say."""

    def __enter__(self) -> Self:
        super().__enter__()
        return self

    def entries(self) -> list[D]:
        """All of them. ⚠ Each block must end with its last one: bytes that are taken for another type are other entries, or
        fewer."""
        found: list[D] = []
        for one in self:
            found.append(one)
            if self.block is not None and not self.block.has_next():
                self._require_end(self.block.block_decoder)
        return found

    def _require_end(self, decoder: BinaryDecoder) -> None:
        if not isinstance(decoder, BoundedDecoder) or not decoder.is_at_end:
            raise ValueError("a block does not end with its last entry")

    def _read_block(self) -> int:
        if self.block is not None and self.decoder.read(SYNC_SIZE) != self.header.sync:
            raise ValueError("a block does not end as it should")
        entries = self.decoder.read_int()
        content = self.decoder.read_bytes()
        if self.header.compression_codec() is not None:
            raise ValueError("its blocks are packed")
        self.block = Block(reader=self.reader, block_records=entries, block_decoder=BoundedDecoder(content))
        return entries
