"""Pages of Changes as messages, none larger than a frame; a larger Change goes out in chunks, or is named.

⚠ Frames are joined of the bytes of Changes, which are kept: of a protobuf message, parts that are written one after the other
are one message.
"""

from __future__ import annotations

from collections.abc import Iterator

from headwater.schemas.filters import Filter
from headwater.schemas.rpc import feed_pb2
from headwater.service.feed.page_json import page_cursor
from headwater.service.grpc.messages.change_messages import change_message
from headwater.service.grpc.messages.encoded_changes import EncodedChanges, decode_change, wire_field
from headwater.service.operations.encoded_entries import EncodedEntry
from headwater.service.operations.feed_pages import Page

FRAME_BYTES = 1024 * 1024
CHUNK_BYTES = 512 * 1024
_FRAME = feed_pb2.SubscribeResponse.DESCRIPTOR.fields_by_name["frame"].number


class ChangeFrames:
    """One per worker: what many readers get is made once."""

    def __init__(self, bytes_max: int) -> None:
        self.changes = EncodedChanges(bytes_max)

    def frame(self, page: Page, cursor: str) -> feed_pb2.Frame:
        return feed_pb2.Frame.FromString(self._frame_bytes(page, cursor))

    def stream_messages(self, page: Page, realm: str, filter: Filter) -> list[tuple[bytes, str | None]]:
        """What Subscribe sends for a page: the chunks of large Changes, then the frame behind which the cursor continues."""
        parts: list[tuple[bytes, str | None]] = [
            (chunk, None) for entry in page.entries if len(entry.json) > FRAME_BYTES for chunk in _chunked(entry)
        ]
        cursor = page_cursor(page, realm, filter)
        parts.append((wire_field(_FRAME, self._frame_bytes(page, cursor)), cursor))
        return parts

    def _frame_bytes(self, page: Page, cursor: str) -> bytes:
        """Large Changes are named alone."""
        pieces: list[bytes] = []
        rest = feed_pb2.Frame(cursor=cursor, withheld=page.withheld)
        for entry in page.entries:
            if len(entry.json) > FRAME_BYTES:
                pointer = decode_change(entry.json).pointer
                rest.large.add(pointer=pointer, seq=entry.seq, entry_id=entry.entry_id.hex(), bytes=len(entry.json))
            else:
                pieces.append(self.changes.field(entry.json))
        for pointer, part in page.parts.items():
            range, head, newest = rest.ranges[pointer], rest.heads[pointer], part.head.newest
            setattr(range, "from", part.start.seq)
            range.to = part.end.seq
            head.seq, head.entry_id, head.commit_id = newest.entry.seq, newest.entry_id.hex(), newest.commit.hex()
        return b"".join([*pieces, rest.SerializeToString()])


def chunks(raw: bytes) -> Iterator[feed_pb2.Chunk]:
    for offset in range(0, len(raw), CHUNK_BYTES):
        yield feed_pb2.Chunk(data=raw[offset : offset + CHUNK_BYTES], offset=offset, total_bytes=len(raw))


def _chunked(entry: EncodedEntry) -> Iterator[bytes]:
    for chunk in chunks(change_message(decode_change(entry.json)).SerializeToString()):
        yield feed_pb2.SubscribeResponse(chunk=chunk).SerializeToString()
