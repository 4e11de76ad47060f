"""Commits, merges and transplants over gRPC."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from msgspec import UNSET, UnsetType

from headwater.consumers.clients.grpc_stream.change_structs import change_of, content_message, one_change, text_of
from headwater.consumers.clients.grpc_stream.exchange import Answered, Asked, Exchange, HttpQuestion, answered, asked, unary
from headwater.schemas.http.feed_json import CommitAnswer, CommitBody
from headwater.schemas.http.merge_json import (
    ConflictInfo,
    ContentInfo,
    IntoBranch,
    KeyRuleBody,
    MergeBody,
    MergedKeyInfo,
    MergePreview,
    TransplantBody,
)
from headwater.schemas.rpc import feed_pb2, reference_pb2


def commit(question: HttpQuestion) -> Exchange:
    body: CommitBody = question.read(CommitBody)
    done = yield from unary(
        "FeedService/Commit",
        idempotency=question.key,
        catalog=body.catalog,
        branch=body.branch or "",
        operations=[_operation(one) for one in body.operations],
        author=body.author or "",
        message=body.message,
        headers=body.headers,
        expected_head=body.expected_head,
        base_commit=body.base_commit,
    )
    return (yield from _committed(done))


def merge(question: HttpQuestion) -> Exchange:
    body: MergeBody = question.read(MergeBody)
    done = yield from unary(
        "ReferenceService/Merge", idempotency=question.key, catalog=question.parts[2], source=body.source, into=_into(body)
    )
    return (yield from _committed(done))


def transplant(question: HttpQuestion) -> Exchange:
    body: TransplantBody = question.read(TransplantBody)
    done = yield from unary(
        "ReferenceService/Transplant",
        idempotency=question.key,
        catalog=question.parts[2],
        commits=body.commits,
        into=_into(body),
    )
    return (yield from _committed(done))


def preview(question: HttpQuestion) -> Exchange:
    body: MergeBody = question.read(MergeBody)
    messages = yield asked("ReferenceService/PreviewMerge", catalog=question.parts[2], source=body.source, into=_into(body))
    first = messages[0]
    keys = [_merged_key(one) for message in messages for one in message.keys]
    return answered(MergePreview(base=first.base or None, already_merged=first.already_merged, keys=keys))


def _merged_key(one: reference_pb2.MergedKey) -> MergedKeyInfo:
    conflict = ConflictInfo(kind=one.conflict_kind, message=one.conflict_message) if one.conflict_kind else None
    return MergedKeyInfo(key=tuple(one.key), verdict=one.verdict, conflict=conflict)


def _committed(done: Any) -> Generator[Asked, list[Any], Answered]:
    """Includes the Change, even if it was too large for the response."""
    change = change_of(done.change) if done.HasField("change") else None
    if change is None and done.meta.changed:
        change = yield from one_change(done.meta.entry_id)
    return answered(
        CommitAnswer(
            pointer=done.meta.pointer,
            commit_id=done.commit_id,
            seq=done.meta.seq,
            replayed=done.meta.replayed,
            change=change,
        )
    )


def _operation(one: dict[str, Any]) -> feed_pb2.Operation:
    """Contents are JSON in the message too."""
    fields: dict[str, Any] = {name: text_of(value) if name in ("content", "expected") else value for name, value in one.items()}
    return feed_pb2.Operation(**fields)


def _into(body: IntoBranch) -> reference_pb2.MergeInto:
    return reference_pb2.MergeInto(
        branch=body.into or "",
        author=body.author or "",
        message=body.message,
        default_behavior=body.default,
        rules=[_rule(one) for one in body.keys],
        expected_head=body.expected_head,
    )


def _rule(rule: KeyRuleBody) -> reference_pb2.KeyRule:
    return reference_pb2.KeyRule(
        key=rule.key, behavior=rule.behavior, expected=_ruled(rule.expected), resolved=_ruled(rule.resolved)
    )


def _ruled(content: ContentInfo | UnsetType | None) -> reference_pb2.ContentOrAbsent | None:
    if content is UNSET:
        return None
    return reference_pb2.ContentOrAbsent(content=None if content is None else content_message(content))
