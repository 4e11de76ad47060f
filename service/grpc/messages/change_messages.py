"""A Change as the message that clients know from the published encoding."""

from __future__ import annotations

import msgspec

from headwater.schemas.change import Change, Value
from headwater.schemas.rpc import change_pb2

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


def _text(value: Value | None) -> str | None:
    return None if value is None else _json_text(value).decode()
