"""The messages of Subscribe as server-sent events, which the stream readers read."""

from __future__ import annotations

from collections.abc import Iterator

import grpc
import msgspec

from headwater.consumers.clients.grpc_stream.change_structs import change_of, in_order, joined, page_of
from headwater.consumers.clients.grpc_stream.statuses import problem_of
from headwater.schemas.change import Change
from headwater.schemas.errors import InvalidInput
from headwater.schemas.http.feed_json import EndReason, StreamEnd, StreamEvent
from headwater.schemas.rpc import feed_pb2


class EventStream:
    """The events of one call. Chunks are kept until the frame that names their Change."""

    def __init__(self, after: str) -> None:
        self._cursor = after
        self._chunks: list[feed_pb2.Chunk] = []
        self._large: list[Change] = []

    def events(self, message: feed_pb2.SubscribeResponse) -> Iterator[bytes]:
        match message.WhichOneof("event"):
            case "chunk":
                self._chunk(message.chunk)
            case "frame":
                yield self._frame(message.frame)
            case "end":
                end = StreamEnd(reason=EndReason(message.end.reason), cursor=message.end.cursor)
                yield _event(StreamEvent.END, self._cursor, end)

    def failed(self, error: grpc.RpcError) -> bytes:
        """A failure in the middle of the stream."""
        end = StreamEnd(reason=EndReason.FAILED, cursor=self._cursor, problem=problem_of(error))
        return _event(StreamEvent.END, self._cursor, end)

    def _chunk(self, chunk: feed_pb2.Chunk) -> None:
        self._chunks.append(chunk)
        if chunk.offset + len(chunk.data) == chunk.total_bytes:
            self._large.append(joined(self._chunks))
            self._chunks = []

    def _frame(self, frame: feed_pb2.Frame) -> bytes:
        if [one.entry_id for one in frame.large] != [one.entry_id for one in self._large]:
            raise InvalidInput("a frame names a large Change whose chunks did not come.", field="server")
        changes = [*(change_of(one) for one in frame.changes), *self._large]
        page = page_of(frame, in_order(changes) if self._large else tuple(changes))
        self._large, self._cursor = [], frame.cursor
        return _event(StreamEvent.CHANGES if page.changes else StreamEvent.BOOKMARK, frame.cursor, page)


def _event(event: StreamEvent, id: str, data: object) -> bytes:
    return b"event: %b\nid: %b\ndata: %b\n\n" % (event.encode(), id.encode(), msgspec.json.encode(data))
