"""Encodes sorted keys and packed values as two compressed columns, and decodes them, at the speed of C.

Neighbouring keys share most of their bytes and the high bytes of ids hardly vary, so the cheapest deflate finds both: a table
key of 20 bytes with its id and tag takes 7 to 11 bytes. Values are cut into byte planes first (all first bytes, all second …).
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence

from headwater.schemas.errors import TornObject

VALUE_BYTES = 9
"""8 bytes object id, 1 byte tag."""

_KEY_SEPARATOR = b"\0\0"
_DEFLATE_LEVEL = 1
_WINDOW_BITS = -15  # raw deflate: every row has its own checksum already


def key_bytes(keys: Sequence[bytes]) -> bytes:
    return _KEY_SEPARATOR.join(keys)


def pack_keys(joined: bytes) -> bytes:
    return zlib.compress(joined, _DEFLATE_LEVEL, _WINDOW_BITS)


def unpack_keys(column: bytes, count: int) -> list[bytes]:
    keys = _inflate(column).split(_KEY_SEPARATOR)
    if len(keys) != count:
        raise TornObject(f"a key column of {count} keys holds {len(keys)}.")
    return keys


def pack_fixed(cells: Sequence[bytes], width: int) -> bytes:
    """Cells of one width, as compressed byte planes."""
    joined = b"".join(cells)
    return zlib.compress(b"".join([joined[plane::width] for plane in range(width)]), _DEFLATE_LEVEL, _WINDOW_BITS)


def unpack_fixed(column: bytes, count: int, width: int) -> list[bytes]:
    planes = _inflate(column)
    if len(planes) != count * width:
        raise TornObject(f"a column of {count} cells of {width} bytes holds {len(planes)} bytes.")
    joined = bytearray(len(planes))
    for plane in range(width):
        joined[plane::width] = planes[plane * count : (plane + 1) * count]
    return [cell for (cell,) in struct.iter_unpack(f"{width}s", joined)]


def _inflate(column: bytes) -> bytes:
    try:
        return zlib.decompress(column, _WINDOW_BITS)
    except zlib.error as error:
        raise TornObject(f"a column does not inflate: {error}") from error
