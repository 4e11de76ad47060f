"""Encodes the positions of a partition's pointers as the text that is committed beside a group's offset, and decodes it.

Kafka bounds that text (`offset.metadata.max.bytes`, 4,096 by default): what does not fit is left out, the oldest first.
A pointer without a kept position begins unchecked at its next record; Kafka's offset still says where that is.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Mapping

import msgspec

from headwater.schemas.cursor import Position

PREFIX = "hwk1_"
TEXT_CHARACTERS_MAX = 4_000
UNPACKED_BYTES_MAX = 1_000_000


def positions_text(positions: Mapping[str, Position]) -> str:
    """Of as many as fit; the last of the mapping are the newest."""
    kept = list(positions.items())
    text = _packed(kept)
    while kept and len(text) > TEXT_CHARACTERS_MAX:
        kept = kept[max(1, len(kept) // 8) :]
        text = _packed(kept)
    return text


def parse_positions(text: str) -> dict[str, Position]:
    """Nothing for what somebody else has written there."""
    if not text.startswith(PREFIX):
        return {}
    try:
        raw = zlib.decompressobj().decompress(base64.urlsafe_b64decode(text.removeprefix(PREFIX)), UNPACKED_BYTES_MAX)
        return msgspec.msgpack.decode(raw, type=dict[str, Position])
    except (binascii.Error, zlib.error, ValueError, msgspec.DecodeError):
        return {}


def _packed(kept: list[tuple[str, Position]]) -> str:
    return PREFIX + base64.urlsafe_b64encode(zlib.compress(msgspec.msgpack.encode(dict(kept)))).decode()
