"""ReferenceService: branches, tags, merges, transplants and differences, on the operations of `/manage/v1`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Any

import msgspec

from headwater.schemas.errors import InvalidInput
from headwater.schemas.http.feed_json import CommitAnswer
from headwater.schemas.http.manage_json import (
    Gone,
    ReferenceBody,
    ReferenceInfo,
    ReferencesPage,
    ReferenceTarget,
    ReferenceWritten,
)
from headwater.schemas.http.merge_json import (
    COMMITS_MAX,
    KEYS_MAX,
    DiffAnswer,
    KeyRuleBody,
    MergeBody,
    MergedKeyInfo,
    MergePreview,
    TransplantBody,
)
from headwater.schemas.rpc import reference_pb2
from headwater.service.grpc.messages.committed import fill_committed
from headwater.service.grpc.messages.frames import CHUNK_BYTES
from headwater.service.grpc.messages.key_contents import content_message, ruled_content
from headwater.service.grpc.messages.message_fields import catalog_name, decoded, set_meta, version_of
from headwater.service.grpc.messages.paging import next_token, page_size, page_token, parts_of
from headwater.service.grpc.rpc import Bound, Rpc, RpcCall, sibling
from headwater.service.http.responses import Response
from headwater.service.manage.route import IN_CATALOG

SERVICE = "io.headwater.catalog.v1.ReferenceService"
_ALL, _ONE = f"{IN_CATALOG}/references", f"{IN_CATALOG}/references/{{type}}/{{reference}}"
_LIST, _CREATE = sibling("GET", _ALL), sibling("POST", _ALL)
_GET, _ASSIGN, _DELETE = sibling("GET", _ONE), sibling("PUT", _ONE), sibling("DELETE", _ONE)
_MERGE, _PREVIEW = sibling("POST", f"{IN_CATALOG}/merge"), sibling("POST", f"{IN_CATALOG}/merge-preview")
_TRANSPLANT, _DIFF = sibling("POST", f"{IN_CATALOG}/transplant"), sibling("GET", f"{IN_CATALOG}/diff")
BRANCH = "branch"
STATES = ("before", "after")


def _catalog(call: RpcCall) -> dict[str, str]:
    return {"catalog": catalog_name(call.message.catalog, "catalog")}


def _named(call: RpcCall) -> dict[str, str]:
    if not call.message.name:
        raise InvalidInput("it is empty.", field="name", remedy="Name a branch or tag.")
    return {**_catalog(call), "type": call.message.type or BRANCH, "reference": call.message.name}


def _paged(call: RpcCall) -> dict[str, str]:
    token = page_token(call)
    return {"limit": str(page_size(call.message))} | ({} if token is None else {"token": token})


# ── references ──────────────────────────────────────────────────────────────────────────────────────────────


def _list(call: RpcCall) -> Bound:
    query = _paged(call) | {"deleted": "true" if call.message.deleted else "false"}
    if call.message.type:
        query["type"] = call.message.type
    return Bound(route=_LIST, names=_catalog(call), query=query)


def _create(call: RpcCall) -> Bound:
    message = call.message
    body = ReferenceBody(
        name=_named(call)["reference"],
        type=message.type or BRANCH,
        source=message.source or None,
        author=message.author or None,
        message=message.message,
    )
    return Bound(route=_CREATE, names=_catalog(call), body=body)


def _assign(call: RpcCall) -> Bound:
    message = call.message
    if not message.target:
        raise InvalidInput("it is empty.", field="target", remedy="Name a commit.")
    body = ReferenceTarget(
        target=message.target,
        expected_head=message.expected_head if message.HasField("expected_head") else None,
        author=message.author or None,
        message=message.message,
    )
    return Bound(route=_ASSIGN, names=_named(call), body=body, version=version_of(message))


def _delete(call: RpcCall) -> Bound:
    message = call.message
    query = {name: text for name, text in (("author", message.author), ("message", message.message)) if text}
    return Bound(route=_DELETE, names=_named(call), query=query, version=version_of(message))


def _info(info: ReferenceInfo) -> reference_pb2.Reference:
    return reference_pb2.Reference(
        name=info.name,
        type=info.type,
        pointer=info.pointer,
        commit_id=info.commit_id,
        seq=info.seq,
        oldest_seq=info.oldest_seq,
        time=info.time,
        deleted=info.deleted,
    )


def _page(call: RpcCall, request: Any, response: Response) -> reference_pb2.ListReferencesResponse:
    page = decoded(response, ReferencesPage)
    shown = reference_pb2.ListReferencesResponse(references=[_info(one) for one in page.references])
    shown.page.next_token = next_token(call, page.next_token)
    return shown


def _got(call: RpcCall, request: Any, response: Response) -> reference_pb2.GetReferenceResponse:
    return reference_pb2.GetReferenceResponse(reference=_info(decoded(response, ReferenceInfo)))


def _created(call: RpcCall, request: Any, response: Response) -> reference_pb2.CreateReferenceResponse:
    written = decoded(response, ReferenceWritten)
    shown = reference_pb2.CreateReferenceResponse(reference=_info(written.reference))
    set_meta(shown.meta, written.meta)
    return shown


def _assigned(call: RpcCall, request: Any, response: Response) -> reference_pb2.AssignReferenceResponse:
    written = decoded(response, ReferenceWritten)
    shown = reference_pb2.AssignReferenceResponse(reference=_info(written.reference))
    set_meta(shown.meta, written.meta)
    return shown


def _deleted(call: RpcCall, request: Any, response: Response) -> reference_pb2.DeleteReferenceResponse:
    shown = reference_pb2.DeleteReferenceResponse()
    set_meta(shown.meta, decoded(response, Gone).meta)
    return shown


# ── merges ──────────────────────────────────────────────────────────────────────────────────────────────────


def _into(call: RpcCall) -> dict[str, Any]:
    into = call.message.into
    if len(into.rules) > KEYS_MAX:
        raise InvalidInput(f"{len(into.rules)} rules.", field="into.rules", remedy=f"Send up to {KEYS_MAX}.")
    return {
        "into": into.branch or None,
        "author": into.author or None,
        "message": into.message,
        "default": into.default_behavior or "NORMAL",
        "keys": [
            KeyRuleBody(
                key=tuple(rule.key),
                behavior=rule.behavior or "NORMAL",
                expected=ruled_content(rule, "expected"),
                resolved=ruled_content(rule, "resolved"),
            )
            for rule in into.rules
        ],
        "expected_head": into.expected_head if into.HasField("expected_head") else None,
    }


def _merging(call: RpcCall) -> MergeBody:
    if not call.message.source:
        raise InvalidInput("it is empty.", field="source", remedy="Name a branch, tag or commit.")
    return MergeBody(source=call.message.source, **_into(call))


def _transplant(call: RpcCall) -> Bound:
    commits = list(call.message.commits)
    if not 1 <= len(commits) <= COMMITS_MAX:
        raise InvalidInput(f"{len(commits)} commits.", field="commits", remedy=f"Name 1 to {COMMITS_MAX}.")
    return Bound(route=_TRANSPLANT, names=_catalog(call), body=TransplantBody(commits=commits, **_into(call)))


def _merged(call: RpcCall, request: Any, response: Response) -> reference_pb2.MergeResponse:
    shown = reference_pb2.MergeResponse()
    fill_committed(shown, decoded(response, CommitAnswer))
    return shown


def _transplanted(call: RpcCall, request: Any, response: Response) -> reference_pb2.TransplantResponse:
    shown = reference_pb2.TransplantResponse()
    fill_committed(shown, decoded(response, CommitAnswer))
    return shown


async def _previewed(call: RpcCall, request: Any) -> AsyncIterator[bytes]:
    preview = await _decoded(request, MergePreview)
    for keys in _parts([_merged_key(one) for one in preview.keys]):
        shown = reference_pb2.PreviewMergeResponse(base=preview.base or "", already_merged=preview.already_merged, keys=keys)
        yield shown.SerializeToString()


def _merged_key(one: MergedKeyInfo) -> reference_pb2.MergedKey:
    shown = reference_pb2.MergedKey(key=one.key, verdict=one.verdict)
    if one.conflict is not None:
        shown.conflict_kind, shown.conflict_message = one.conflict.kind, one.conflict.message
    return shown


async def _differing(call: RpcCall, request: Any) -> AsyncIterator[bytes]:
    answer = await _decoded(request, DiffAnswer)
    entries = [
        reference_pb2.DiffEntry(key=one.key, before=content_message(one.before), after=content_message(one.after))
        for one in answer.diff
    ]
    *parts, last = _parts(entries)
    for part in parts:
        yield reference_pb2.DiffResponse(before=answer.before, after=answer.after, entries=part).SerializeToString()
    shown = reference_pb2.DiffResponse(before=answer.before, after=answer.after, entries=last)
    inner = None if answer.next_token is None else f"{answer.before}:{answer.after}:{answer.next_token}"
    shown.page.next_token = next_token(call, inner, but=STATES)
    yield shown.SerializeToString()


async def _decoded(request: Any, kind: type[Any]) -> Any:
    response = await request.handle()
    return await asyncio.to_thread(msgspec.json.decode, response.body, type=kind)


def _parts(messages: list[Any]) -> Iterator[list[Any]]:
    """At least one, none much larger than a chunk, unless a single message is."""
    part: list[Any] = []
    size = 0
    for one in messages:
        if part and size + one.ByteSize() > CHUNK_BYTES:
            yield part
            part, size = [], 0
        part.append(one)
        size += one.ByteSize()
    yield part


def _diff(call: RpcCall) -> Bound:
    message = call.message
    for field in ("before", "after"):
        if not getattr(message, field):
            raise InvalidInput("it is empty.", field=field, remedy="Name a branch, tag or commit.")
    token = page_token(call, but=STATES)
    query = {"limit": str(page_size(message)), "before": message.before, "after": message.after}
    if token is not None:  # later pages compare the two states of the first one
        query["before"], query["after"], query["token"] = parts_of(token, 3)
    return Bound(route=_DIFF, names=_catalog(call), query=query)


def _rows() -> Iterable[Rpc]:
    yield Rpc(method=f"{SERVICE}/ListReferences", routes=(_LIST,), bind=_list, reply=_page)
    yield Rpc(
        method=f"{SERVICE}/GetReference",
        routes=(_GET,),
        bind=lambda call: Bound(route=_GET, names=_named(call)),
        reply=_got,
    )
    yield Rpc(method=f"{SERVICE}/CreateReference", routes=(_CREATE,), bind=_create, reply=_created, is_keyed=True)
    yield Rpc(method=f"{SERVICE}/AssignReference", routes=(_ASSIGN,), bind=_assign, reply=_assigned, is_keyed=True)
    yield Rpc(method=f"{SERVICE}/DeleteReference", routes=(_DELETE,), bind=_delete, reply=_deleted, is_keyed=True)
    yield Rpc(
        method=f"{SERVICE}/Merge",
        routes=(_MERGE,),
        bind=lambda call: Bound(route=_MERGE, names=_catalog(call), body=_merging(call)),
        reply=_merged,
        is_keyed=True,
    )
    yield Rpc(
        method=f"{SERVICE}/PreviewMerge",
        routes=(_PREVIEW,),
        bind=lambda call: Bound(route=_PREVIEW, names=_catalog(call), body=_merging(call)),
        serve=_previewed,
    )
    yield Rpc(method=f"{SERVICE}/Transplant", routes=(_TRANSPLANT,), bind=_transplant, reply=_transplanted, is_keyed=True)
    yield Rpc(method=f"{SERVICE}/Diff", routes=(_DIFF,), bind=_diff, serve=_differing)


ROWS = tuple(_rows())
