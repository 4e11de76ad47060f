"""Encodes the positions of a partition's pointers as the text that is committed beside a group's offset, and decodes it.

Kafka bounds that text (`offset.metadata.max.bytes`, 4,096 by default): what does not fit is left out, the oldest first, and the
text says so. As long as the topic holds everything from the offset on, a pointer that was left out continues with its next
record.
"""

from __future__ import annotations

import base64
import binascii
import zlib

import msgspec

PREFIX = "hwk2_"
TEXT_CHARACTERS_MAX = 4_000
UNPACKED_BYTES_MAX = 1_000_000


class KafkaPosition(msgspec.Struct, frozen=True, array_like=True):
    """The last returned entry of a pointer, and the generation of its records."""

    seq: int
    entry_id: bytes
    generation: int = 1


class KeptPositions(msgspec.Struct, frozen=True, array_like=True):
    generation: int = 0
    """Generation of the partition's last record; 0 before the first."""
    has_ended: bool = False
    """Whether that record was the end of its generation."""
    is_complete: bool = True
    """Whether no pointer was left out."""
    positions: dict[str, KafkaPosition] = {}


def positions_text(kept: KeptPositions) -> str:
    """As many positions as fit; the last ones of the mapping are the newest."""
    text, positions = _packed(kept), list(kept.positions.items())
    while positions and len(text) > TEXT_CHARACTERS_MAX:
        positions = positions[max(1, len(positions) // 8) :]
        text = _packed(msgspec.structs.replace(kept, is_complete=False, positions=dict(positions)))
    return text


def parse_positions(text: str) -> KeptPositions:
    """Empty if another program has written the text."""
    unknown = KeptPositions(is_complete=False)
    if not text.startswith(PREFIX):
        return unknown
    try:
        raw = zlib.decompressobj().decompress(base64.urlsafe_b64decode(text.removeprefix(PREFIX)), UNPACKED_BYTES_MAX)
        return msgspec.msgpack.decode(raw, type=KeptPositions)
    except (binascii.Error, zlib.error, ValueError, msgspec.DecodeError):
        return unknown


def _packed(kept: KeptPositions) -> str:
    return PREFIX + base64.urlsafe_b64encode(zlib.compress(msgspec.msgpack.encode(kept))).decode()
