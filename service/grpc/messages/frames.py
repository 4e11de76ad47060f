"""Pages of Changes as messages, none larger than a frame; a larger Change goes out in chunks, or is named."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from headwater.schemas.change import Change, Value
from headwater.schemas.filters import Filter
from headwater.schemas.rpc import change_pb2, feed_pb2
from headwater.service.feed.page_json import page_cursor
from headwater.service.operations.encoded_entries import EncodedEntry
from headwater.service.operations.feed_pages import Page

FRAME_BYTES = 1024 * 1024
CHUNK_BYTES = 512 * 1024

_change = msgspec.json.Decoder(Change).decode
_json_text = msgspec.json.Encoder(order="deterministic").encode


def change_message(change: Change) -> change_pb2.Change:
    """The very bytes of `to_protobuf`, several times faster: the fields are named here, not looked up."""
    base, source = change.base, change.source
    return change_pb2.Change(
        realm=change.realm,
        pointer=change.pointer,
        seq=change.seq,
        entry_id=change.entry_id,
        kind=change.kind,
        commit_id=change.commit_id,
        parent_id=change.parent_id,
        head_before=change.head_before,
        time=change.time,
        author=change.author,
        message=change.message,
        headers=change.headers,
        request_id=change.request_id,
        operations=[
            change_pb2.Operation(
                op=one.op,
                key=one.key,
                content_id=one.content_id,
                type=one.type,
                before=_text(one.before),
                after=_text(one.after),
                from_key=one.from_key,
            )
            for one in change.operations
        ],
        objects_added=change.objects_added,
        objects_released=change.objects_released,
        base=None if base is None else change_pb2.Base(pointer=base.pointer, seq=base.seq, commit_id=base.commit_id),
        source=None if source is None else change_pb2.Source(pointer=source.pointer, commit_id=source.commit_id),
    )


def frame_of(page: Page, cursor: str) -> feed_pb2.Frame:
    """Large Changes are named alone."""
    frame = feed_pb2.Frame(cursor=cursor, withheld=page.withheld)
    for entry in page.entries:
        change = _change(entry.json)
        if len(entry.json) > FRAME_BYTES:
            frame.large.add(pointer=change.pointer, seq=entry.seq, entry_id=entry.entry_id.hex(), bytes=len(entry.json))
        else:
            frame.changes.append(change_message(change))
    for pointer, part in page.parts.items():
        range, head, newest = frame.ranges[pointer], frame.heads[pointer], part.head.newest
        setattr(range, "from", part.start.seq)
        range.to = part.end.seq
        head.seq, head.entry_id, head.commit_id = newest.entry.seq, newest.entry_id.hex(), newest.commit.hex()
    return frame


def stream_messages(page: Page, realm: str, filter: Filter) -> list[tuple[bytes, str | None]]:
    """What Subscribe sends for a page: the chunks of large Changes, then the frame behind which the cursor continues."""
    parts: list[tuple[bytes, str | None]] = [
        (chunk, None) for entry in page.entries if len(entry.json) > FRAME_BYTES for chunk in _chunked(entry)
    ]
    cursor = page_cursor(page, realm, filter)
    parts.append((feed_pb2.SubscribeResponse(frame=frame_of(page, cursor)).SerializeToString(), cursor))
    return parts


def chunks(raw: bytes) -> Iterator[feed_pb2.Chunk]:
    for offset in range(0, len(raw), CHUNK_BYTES):
        yield feed_pb2.Chunk(data=raw[offset : offset + CHUNK_BYTES], offset=offset, total_bytes=len(raw))


def _chunked(entry: EncodedEntry) -> Iterator[bytes]:
    for chunk in chunks(change_message(_change(entry.json)).SerializeToString()):
        yield feed_pb2.SubscribeResponse(chunk=chunk).SerializeToString()


def _text(value: Value | None) -> str | None:
    return None if value is None else _json_text(value).decode()
