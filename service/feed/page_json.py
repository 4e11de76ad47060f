"""Joins encoded entries into the JSON of a page, and computes its entity tag. Nothing is encoded again."""

from __future__ import annotations

from functools import lru_cache

import msgspec

from headwater.persistence.reading.pointer_log import LogHead
from headwater.schemas.cursor import Cursor, Position, encode_cursor
from headwater.schemas.filters import Filter
from headwater.service.operations.feed_pages import Page, PointerPart

CURSORS_KEPT_MAX = 4_096

_encode = msgspec.json.Encoder().encode


def page_json(page: Page, realm: str, filter: Filter) -> bytes:
    """`range` and `head` for one pointer; `ranges` and `heads` by name for several."""
    changes = b",".join([entry.json for entry in page.entries])
    cursor = page_cursor(page, realm, filter)
    if len(page.parts) == 1:
        ((_, part),) = page.parts.items()
        return b'{"changes":[%b],"range":%b,"cursor":"%b","head":%b%b}' % (
            changes,
            _range(part),
            cursor.encode(),
            _head(part.head),
            _withheld(page),
        )
    ranges, heads = ranges_and_heads(page)
    return b'{"changes":[%b],"ranges":%b,"cursor":"%b","heads":%b%b}' % (
        changes,
        ranges,
        cursor.encode(),
        heads,
        _withheld(page),
    )


def _withheld(page: Page) -> bytes:
    return b',"withheld":true' if page.withheld else b""


def page_cursor(page: Page, realm: str, filter: Filter) -> str:
    """Continues after the page."""
    if len(page.parts) == 1:
        ((pointer, part),) = page.parts.items()
        return _cursor(realm, pointer, part.end.seq, part.end.entry_id, filter)
    return positions_cursor(page.ends, realm, filter)


def positions_cursor(positions: dict[str, Position], realm: str, filter: Filter) -> str:
    return encode_cursor(Cursor(realm, positions, filter))


def subscription_page_json(page: Page, version: str) -> bytes:
    """With what its reader posts back to acknowledge it: the positions that it moves, for they may be too many for a cursor."""
    moved = {
        pointer: {"seq": part.end.seq, "entry_id": part.end.entry_id.hex()}
        for pointer, part in page.parts.items()
        if part.end.seq > part.start.seq
    }
    changes = b",".join([entry.json for entry in page.entries])
    ranges, heads = ranges_and_heads(page)
    acknowledge = _encode({"version": version, "positions": moved})
    return b'{"changes":[%b],"ranges":%b,"heads":%b,"acknowledge":%b%b}' % (
        changes,
        ranges,
        heads,
        acknowledge,
        _withheld(page),
    )


def ranges_and_heads(page: Page) -> tuple[bytes, bytes]:
    names = {pointer: _encode(pointer) for pointer in page.parts}
    ranges = b",".join(b"%b:%b" % (names[pointer], _range(part)) for pointer, part in page.parts.items())
    heads = b",".join(b"%b:%b" % (names[pointer], _head(part.head)) for pointer, part in page.parts.items())
    return b"{%b}" % ranges, b"{%b}" % heads


def page_etag(page: Page, realm: str) -> bytes:
    """Names what a reader has seen after this page: instance, seq and entry. Weak, for `head` may move on under it."""
    seen = ".".join([f"{part.end.seq}-{part.end.entry_id[:8].hex()}" for part in page.parts.values()])
    return f'W/"{realm}-{seen}"'.encode()


def _range(part: PointerPart) -> bytes:
    return b'{"from":%d,"to":%d}' % (part.start.seq, part.end.seq)


def _head(head: LogHead) -> bytes:
    newest = head.newest
    return b'{"seq":%d,"entry_id":"%b","commit_id":"%b"}' % (
        newest.entry.seq,
        newest.entry_id.hex().encode(),
        newest.commit.hex().encode(),
    )


@lru_cache(maxsize=CURSORS_KEPT_MAX)
def _cursor(realm: str, pointer: str, seq: int, entry_id: bytes, filter: Filter) -> str:
    return encode_cursor(Cursor(realm, {pointer: Position(seq, entry_id)}, filter))
