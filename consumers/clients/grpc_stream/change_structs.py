"""Converts Changes, frames and contents of gRPC messages to the structs that every transport returns."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Any

import msgspec

from headwater.consumers.clients.grpc_stream.exchange import Asked, asked
from headwater.schemas.change import Base, Change, Kind, Op, Operation, Source, Value
from headwater.schemas.errors import InvalidInput
from headwater.schemas.http.feed_json import FeedPage, Head, Range
from headwater.schemas.http.merge_json import ContentInfo
from headwater.schemas.rpc import change_pb2, feed_pb2, reference_pb2

_value = msgspec.json.Decoder().decode
_text = msgspec.json.Encoder(order="deterministic").encode


def change_of(message: change_pb2.Change) -> Change:
    return Change(
        realm=message.realm,
        pointer=message.pointer,
        seq=message.seq,
        entry_id=message.entry_id,
        kind=Kind(message.kind),
        commit_id=message.commit_id,
        parent_id=message.parent_id,
        head_before=message.head_before,
        time=message.time,
        author=message.author,
        message=message.message,
        headers=dict(message.headers),
        request_id=message.request_id,
        operations=tuple(_operation(one) for one in message.operations),
        objects_added=tuple(message.objects_added),
        objects_released=tuple(message.objects_released),
        base=_base(message.base) if message.HasField("base") else None,
        source=Source(pointer=message.source.pointer, commit_id=message.source.commit_id)
        if message.HasField("source")
        else None,
    )


def _base(base: change_pb2.Base) -> Base:
    return Base(pointer=base.pointer, seq=base.seq, commit_id=base.commit_id)


def _operation(one: change_pb2.Operation) -> Operation:
    return Operation(
        op=Op(one.op),
        key=tuple(one.key),
        content_id=one.content_id,
        type=one.type,
        before=value_of(one.before) if one.HasField("before") else None,
        after=value_of(one.after) if one.HasField("after") else None,
        from_key=tuple(one.from_key) or None,
    )


def value_of(text: str) -> Value:
    found: Value = _value(text)
    return found


def text_of(value: object) -> str:
    return _text(value).decode()


def content_of(message: Any, field: str) -> ContentInfo | None:
    if not message.HasField(field):
        return None
    one = getattr(message, field)
    return ContentInfo(type=one.type, content_id=one.content_id, value=value_of(one.value))


def content_message(content: ContentInfo) -> reference_pb2.KeyContent:
    return reference_pb2.KeyContent(type=content.type, content_id=content.content_id, value=text_of(content.value))


# ── large Changes ───────────────────────────────────────────────────────────────────────────────────────────


def joined(chunks: Iterable[feed_pb2.Chunk]) -> Change:
    """⚠ Complete, or an error: a partial Change is never returned."""
    raw, total = bytearray(), 0
    for chunk in chunks:
        if chunk.offset != len(raw):
            raise InvalidInput("chunks of a Change do not follow each other.", field="server")
        raw += chunk.data
        total = chunk.total_bytes
    if not raw or len(raw) != total:
        raise InvalidInput(f"{len(raw)} of {total} bytes of a Change came.", field="server")
    return change_of(change_pb2.Change.FromString(bytes(raw)))


def one_change(id: str) -> Generator[Asked, list[Any], Change]:
    parts = yield asked("FeedService/GetChange", id=id)
    if len(parts) == 1 and parts[0].HasField("change"):
        return change_of(parts[0].change)
    return joined(part.chunk for part in parts)


def frame_changes(frame: feed_pb2.Frame) -> Generator[Asked, list[Any], tuple[Change, ...]]:
    """Includes those that the frame only names."""
    changes = [change_of(one) for one in frame.changes]
    for large in frame.large:
        changes.append((yield from one_change(large.entry_id)))
    return in_order(changes) if frame.large else tuple(changes)


def in_order(changes: Iterable[Change]) -> tuple[Change, ...]:
    """As pages have them: each pointer's by seq, and merged by time."""
    return tuple(sorted(changes, key=lambda one: (one.time, one.pointer, one.seq)))


def page_of(frame: feed_pb2.Frame, changes: tuple[Change, ...]) -> FeedPage:
    return FeedPage(
        changes=changes,
        cursor=frame.cursor,
        ranges={name: Range(getattr(one, "from"), one.to) for name, one in frame.ranges.items()},
        heads=heads_of(frame),
        withheld=frame.withheld,
    )


def heads_of(frame: feed_pb2.Frame) -> dict[str, Head]:
    return {name: Head(one.seq, one.entry_id, one.commit_id) for name, one in frame.heads.items()}
