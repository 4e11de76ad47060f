"""Creates, lists, assigns and deletes branches and tags of a catalog; each move is one entry."""

from __future__ import annotations

from headwater.persistence.commit.commit_outcome import CommitOutcome
from headwater.producer.catalogs.catalogs import Catalogs
from headwater.producer.commits.catalog_commit import CommitResult
from headwater.producer.commits.commit_meta import CommitMeta
from headwater.producer.pointer_names import ReferenceType, reference_pointer
from headwater.producer.references.reference_specs import DEFAULT_BRANCH
from headwater.producer.references.references import Reference, References
from headwater.schemas.errors import InvalidInput
from headwater.schemas.http.manage_json import (
    Gone,
    ReferenceBody,
    ReferenceInfo,
    ReferencesPage,
    ReferenceTarget,
    ReferenceWritten,
)
from headwater.service.auth.rights.rights import Right
from headwater.service.gate.route import BODY, Route
from headwater.service.http.responses import Response, json_response
from headwater.service.manage import parameters
from headwater.service.manage.call import ManageCall, meta_of, versioned
from headwater.service.manage.route import IN_CATALOG, Over

TYPES = {"branch": ReferenceType.BRANCH, "tag": ReferenceType.TAG}


def list_references(call: ManageCall) -> Response:
    page = _references(call).list(
        type=None if call.query["type"] is None else TYPES[call.query["type"]],
        token=call.query["token"],
        limit=call.query["limit"],
        deleted=call.query["deleted"] == "true",
    )
    return json_response(ReferencesPage(references=[_info(one) for one in page.references], next_token=page.next_token))


def get_reference(call: ManageCall) -> Response:
    found = _references(call).get(call.names["reference"], type=_type(call.names["type"]))
    return versioned(_info(found), found.commit_id)


def create_reference(call: ManageCall) -> Response:
    body = call.read(ReferenceBody)
    type = _type(body.type)
    done = _references(call).create(
        body.name,
        body.source or DEFAULT_BRANCH,
        type=type,
        meta=_meta(call, body.author, body.message),
        request_id=call.meta.request_id,
    )
    return _written(call, body.name, type, done, 201)


def assign_reference(call: ManageCall) -> Response:
    body = call.read(ReferenceTarget)
    name, type = call.names["reference"], _type(call.names["type"])
    if call.version is not None and body.expected_head not in (None, call.version):
        raise InvalidInput("If-Match says another head.", field="expected_head", remedy="Send one of the two.")
    done = _references(call).assign(
        name,
        body.target,
        type=type,
        expected_head=call.version or body.expected_head,
        meta=_meta(call, body.author, body.message),
        request_id=call.meta.request_id,
    )
    return _written(call, name, type, done)


def delete_reference(call: ManageCall) -> Response:
    name, type = call.names["reference"], _type(call.names["type"])
    pointer = reference_pointer(call.catalog.id, type, name)

    def delete() -> CommitOutcome:
        done = _references(call).delete(
            name,
            type=type,
            expected_head=call.version,
            meta=_meta(call, call.query["author"], call.query["message"] or ""),
            request_id=call.meta.request_id,
        )
        return done.outcome(pointer)

    return call.gone(pointer, delete)


def _written(call: ManageCall, name: str, type: ReferenceType, done: CommitResult, status: int = 200) -> Response:
    found = _references(call).get(name, type=type, deleted_ok=True)
    meta = meta_of(done.outcome(found.pointer), done.commit_id)
    return versioned(ReferenceWritten(reference=_info(found), meta=meta), done.commit_id, status)


def _references(call: ManageCall) -> References:
    return Catalogs(call.kernel).references(call.catalog)


def _meta(call: ManageCall, author: str | None, message: str) -> CommitMeta:
    """⚠ Who acts is proven by the token; what a request says counts only where no token is asked for."""
    claimed = author if call.caller.development else None
    return CommitMeta(claimed or call.meta.author, message, call.meta.headers)


def _type(text: str) -> ReferenceType:
    if text not in TYPES:
        raise InvalidInput(f"{text[:40]!r} is neither branch nor tag.", field="type", remedy="Use branch or tag.")
    return TYPES[text]


def _info(reference: Reference) -> ReferenceInfo:
    return ReferenceInfo(
        name=reference.name,
        type=str(reference.type).lower(),
        pointer=reference.pointer,
        commit_id=reference.commit_id,
        seq=reference.seq,
        oldest_seq=reference.oldest_seq,
        time=reference.time,
        deleted=reference.deleted,
    )


_REFERENCE = f"{IN_CATALOG}/references/{{type}}/{{reference}}"
ROUTES = (
    Route(
        "GET",
        f"{IN_CATALOG}/references",
        "Branches by name, then tags by name.",
        list_references,
        Over.CATALOG.needs(Right.REFERENCE_READ),
        parameters=parameters.REFERENCES,
        answer=ReferencesPage,
    ),
    Route(
        "POST",
        f"{IN_CATALOG}/references",
        "Create a branch or tag.",
        create_reference,
        Over.CATALOG.needs(Right.REFERENCE_CREATE),
        BODY,
        body=ReferenceBody,
        answer=ReferenceWritten,
        status=201,
    ),
    Route(
        "GET", _REFERENCE, "One branch or tag.", get_reference, Over.CATALOG.needs(Right.REFERENCE_READ), answer=ReferenceInfo
    ),
    Route(
        "PUT",
        _REFERENCE,
        "Assign a branch or tag to a commit.",
        assign_reference,
        Over.CATALOG.needs(Right.REFERENCE_ASSIGN),
        BODY,
        body=ReferenceTarget,
        answer=ReferenceWritten,
    ),
    Route(
        "DELETE",
        _REFERENCE,
        "Delete a branch or tag; its log can still be read.",
        delete_reference,
        Over.CATALOG.needs(Right.REFERENCE_DELETE),
        parameters=parameters.DELETE_REFERENCE,
        answer=Gone,
    ),
)
