"""Branches, tags and differences over gRPC."""

from __future__ import annotations

from headwater.consumers.clients.grpc_stream.change_structs import content_of
from headwater.consumers.clients.grpc_stream.exchange import Exchange, HttpQuestion, answered, asked, unary
from headwater.consumers.clients.grpc_stream.record_calls import meta_of
from headwater.schemas.http.manage_json import (
    Gone,
    ReferenceBody,
    ReferenceInfo,
    ReferencesPage,
    ReferenceTarget,
    ReferenceWritten,
)
from headwater.schemas.http.merge_json import DiffAnswer, DiffEntry
from headwater.schemas.rpc import reference_pb2


def references(question: HttpQuestion) -> Exchange:
    page = yield from unary(
        "ReferenceService/ListReferences",
        catalog=question.parts[2],
        type=question.one("type"),
        deleted=question.one("deleted") == "true",
        page=question.page,
    )
    found = [_info(one) for one in page.references]
    return answered(ReferencesPage(references=found, next_token=page.page.next_token or None))


def reference(question: HttpQuestion) -> Exchange:
    _, _, catalog, _, type, name = question.parts
    found = yield from unary("ReferenceService/GetReference", catalog=catalog, name=name, type=type)
    return answered(_info(found.reference))


def create(question: HttpQuestion) -> Exchange:
    body: ReferenceBody = question.read(ReferenceBody)
    done = yield from unary(
        "ReferenceService/CreateReference",
        idempotency=question.key,
        catalog=question.parts[2],
        name=body.name,
        type=body.type,
        source=body.source or "",
        author=body.author or "",
        message=body.message,
    )
    return answered(ReferenceWritten(reference=_info(done.reference), meta=meta_of(done.meta)), 201)


def assign(question: HttpQuestion) -> Exchange:
    body: ReferenceTarget = question.read(ReferenceTarget)
    _, _, catalog, _, type, name = question.parts
    done = yield from unary(
        "ReferenceService/AssignReference",
        idempotency=question.key,
        catalog=catalog,
        name=name,
        type=type,
        target=body.target,
        author=body.author or "",
        message=body.message,
        precondition=question.precondition,
        expected_head=body.expected_head,
    )
    return answered(ReferenceWritten(reference=_info(done.reference), meta=meta_of(done.meta)))


def delete(question: HttpQuestion) -> Exchange:
    _, _, catalog, _, type, name = question.parts
    done = yield from unary(
        "ReferenceService/DeleteReference",
        idempotency=question.key,
        catalog=catalog,
        name=name,
        type=type,
        author=question.one("author"),
        message=question.one("message"),
        precondition=question.precondition,
    )
    return answered(Gone(meta=meta_of(done.meta)))


def diff(question: HttpQuestion) -> Exchange:
    messages = yield asked(
        "ReferenceService/Diff",
        catalog=question.parts[2],
        before=question.one("before"),
        after=question.one("after"),
        page=question.page,
    )
    last = messages[-1]
    entries = [
        DiffEntry(key=tuple(one.key), before=content_of(one, "before"), after=content_of(one, "after"))
        for message in messages
        for one in message.entries
    ]
    return answered(DiffAnswer(before=last.before, after=last.after, diff=entries, next_token=last.page.next_token or None))


def _info(one: reference_pb2.Reference) -> ReferenceInfo:
    return ReferenceInfo(
        name=one.name,
        type=one.type,
        pointer=one.pointer,
        commit_id=one.commit_id,
        seq=one.seq,
        oldest_seq=one.oldest_seq,
        time=one.time,
        deleted=one.deleted,
    )
