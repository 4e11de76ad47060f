"""What a commit, a merge or a transplant became, in the fields that their responses share."""

from __future__ import annotations

from typing import Any

from headwater.schemas.http.feed_json import CommitAnswer
from headwater.service.grpc.messages.change_messages import change_message
from headwater.service.grpc.messages.frames import FRAME_BYTES


def fill_committed(message: Any, answer: CommitAnswer) -> None:
    """`meta`, `commit_id` and `change`, which is left out where it is too large."""
    meta, change = message.meta, answer.change
    message.commit_id = answer.commit_id
    meta.pointer, meta.seq, meta.version, meta.replayed = answer.pointer, answer.seq, answer.commit_id, answer.replayed
    meta.etag = f'"{answer.commit_id}"'
    meta.changed = change is not None
    if change is not None:
        meta.entry_id, meta.time = change.entry_id, change.time
        made = change_message(change)
        if made.ByteSize() <= FRAME_BYTES:
            message.change.CopyFrom(made)
