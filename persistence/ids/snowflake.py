"""Packs time, node and sequence into a 64-bit object id, and unpacks it. Pure.

An id, from the highest bit: 1 reserved (0), 41 milliseconds since 2025-03-01 UTC, 10 node, 12 sequence. Ids sort by time.
"""

from __future__ import annotations

from typing import NamedTuple

from headwater.schemas.errors import IdOutOfRange

EPOCH_MS = 1_740_787_200_000
"""2025-03-01 00:00:00 UTC in milliseconds since 1970."""
TIME_BITS, NODE_BITS, SEQUENCE_BITS = 41, 10, 12
TIME_MS_MAX = (1 << TIME_BITS) - 1
NODES = 1 << NODE_BITS
IDS_PER_MS = 1 << SEQUENCE_BITS
ID_MAX = (1 << 63) - 1


class IdParts(NamedTuple):
    time_ms: int
    """Milliseconds since 2025-03-01 UTC."""
    node: int
    sequence: int


def id_base(time_ms: int, node: int) -> int:
    """The first of the 4096 ids of that node and millisecond."""
    return time_ms << (NODE_BITS + SEQUENCE_BITS) | node << SEQUENCE_BITS


def check_id(object_id: int) -> int:
    if not 0 < object_id <= ID_MAX:
        raise IdOutOfRange(f"{object_id} is not an object id.", field="id", remedy=f"Ids are 1 to {ID_MAX}.")
    return object_id


def id_parts(object_id: int) -> IdParts:
    check_id(object_id)
    return IdParts(
        object_id >> (NODE_BITS + SEQUENCE_BITS),
        object_id >> SEQUENCE_BITS & (NODES - 1),
        object_id & (IDS_PER_MS - 1),
    )


def id_time_micros(object_id: int) -> int:
    """When the id was made, in microseconds since 1970, to the millisecond."""
    return (id_parts(object_id).time_ms + EPOCH_MS) * 1_000


def parse_id(text: str) -> int:
    """Parses an id in decimal."""
    if not (text.isascii() and text.isdecimal()) or len(text) > len(str(ID_MAX)):
        shown = text if len(text) <= 40 else text[:40] + "…"
        raise IdOutOfRange(f"{shown!r} is not an object id.", field="id", remedy=f"Ids are decimal, 1 to {ID_MAX}.")
    return check_id(int(text))
