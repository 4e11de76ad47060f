"""Merges and transplants into a branch of a catalog, and the keys at which two of its states differ."""

from __future__ import annotations

from itertools import islice

import msgspec
from msgspec import UNSET, UnsetType

from headwater.persistence.commit.commit_outcome import CommitOutcome
from headwater.persistence.index import encode_key, just_after
from headwater.persistence.log.committed_requests import RequestKey
from headwater.persistence.log.log_entry import Content, change_of
from headwater.producer.catalogs.catalogs import Catalogs
from headwater.producer.commits.commit_meta import CommitMeta
from headwater.producer.content.content_types import typed_value
from headwater.producer.merging.apply_changes import MergeRules
from headwater.producer.merging.changed_keys import changed_keys
from headwater.producer.merging.merge import MergeRequest, commit_merge
from headwater.producer.merging.merge_preview import preview_merge
from headwater.producer.merging.named_merges import merge_request, transplant_request
from headwater.producer.merging.three_way import Behavior, KeyRule
from headwater.producer.page_tokens import make_token, read_token
from headwater.producer.pointer_names import ReferenceType
from headwater.producer.references.references import References
from headwater.schemas.entry_ids import content_id_bytes, content_id_text
from headwater.schemas.errors import InvalidInput, ObjectNotFound, ReferenceNotFound
from headwater.schemas.http.feed_json import CommitAnswer
from headwater.schemas.http.merge_json import (
    ContentInfo,
    DiffAnswer,
    DiffEntry,
    IntoBranch,
    MergeBody,
    MergePreview,
    TransplantBody,
)
from headwater.service.auth.rights.rights import Right
from headwater.service.gate.route import BODY, Route
from headwater.service.http.responses import Response, json_response
from headwater.service.iceberg.put_checks import check_rules
from headwater.service.manage import parameters
from headwater.service.manage.call import ManageCall, versioned
from headwater.service.manage.route import IN_CATALOG, Over


class _DiffToken(msgspec.Struct, frozen=True, array_like=True):
    last: bytes
    """The key after which the next page begins, as the index has it."""


def merge(call: ManageCall) -> Response:
    body = call.read(MergeBody)
    pointer = _target(call, body)
    request = _merge_request(call, body, request_id=call.meta.request_id)
    return _committed(call, pointer, commit_merge(call.kernel, pointer, request))


def preview(call: ManageCall) -> Response:
    body = call.read(MergeBody)
    return json_response(preview_merge(call.kernel, _target(call, body), _merge_request(call, body)))


def _merge_request(call: ManageCall, body: MergeBody, request_id: str | RequestKey | None = None) -> MergeRequest:
    return merge_request(
        call.kernel,
        _references(call),
        body.source,
        _meta(call, body),
        rules=_checked_rules(call, body),
        expected_head=_expected(call, body),
        request_id=request_id,
    )


def transplant(call: ManageCall) -> Response:
    body = call.read(TransplantBody)
    request = transplant_request(
        call.kernel,
        _references(call),
        body.commits,
        _meta(call, body),
        rules=_checked_rules(call, body),
        expected_head=_expected(call, body),
        request_id=call.meta.request_id,
    )
    pointer = _target(call, body)
    return _committed(call, pointer, call.kernel.committer.commit(pointer, request))


def diff(call: ManageCall) -> Response:
    references, limit = _references(call), call.query["limit"]
    before = references.resolve(call.query["before"], field="before").logged
    after = references.resolve(call.query["after"], field="after").logged
    token = call.query["token"]
    since = just_after(read_token(token, _DiffToken).last) if token else b""
    try:
        found = list(islice(changed_keys(call.kernel, before, after, since=since, wanted=limit + 1), limit + 1))
    except ObjectNotFound as gone:
        raise ReferenceNotFound("one of the two states has expired.", field="before", remedy="Compare newer ones.") from gone
    shown = found[:limit]
    return json_response(
        DiffAnswer(
            before=before.commit.hex(),
            after=after.commit.hex(),
            diff=[DiffEntry(key=one.key, before=_shown(one.before), after=_shown(one.after)) for one in shown],
            next_token=make_token(_DiffToken(encode_key(shown[-1].key))) if len(found) > limit else None,
        )
    )


# ── steps ───────────────────────────────────────────────────────────────────────────────────────────────────


def _references(call: ManageCall) -> References:
    return Catalogs(call.kernel).references(call.catalog)


def _target(call: ManageCall, body: IntoBranch) -> str:
    return _references(call).get(body.into or call.catalog.default_branch, type=ReferenceType.BRANCH).pointer


def _meta(call: ManageCall, body: IntoBranch) -> CommitMeta:
    """⚠ Who acts is proven by the token; what a request says counts only where no token is asked for."""
    claimed = body.author if call.caller.development else None
    return CommitMeta(claimed or call.meta.author, body.message, call.meta.headers)


def _expected(call: ManageCall, body: IntoBranch) -> str | None:
    if call.version is not None and body.expected_head not in (None, call.version):
        raise InvalidInput("If-Match names another head.", field="expected_head", remedy="Send one of the two.")
    return call.version or body.expected_head


def _committed(call: ManageCall, pointer: str, outcome: CommitOutcome) -> Response:
    commit_id = outcome.head_commit.hex()
    answer = CommitAnswer(
        pointer=pointer,
        commit_id=commit_id,
        seq=outcome.head_seq,
        replayed=outcome.replayed,
        change=None if outcome.logged is None else change_of(outcome.logged, call.kernel.realm_name),
    )
    return versioned(answer, commit_id)


# ── rules ───────────────────────────────────────────────────────────────────────────────────────────────────


def _checked_rules(call: ManageCall, body: IntoBranch) -> MergeRules:
    return check_rules(call.service.lakes, call.catalog, _rules(body))


def _rules(body: IntoBranch) -> MergeRules:
    by_key = {
        rule.key: KeyRule(
            behavior=_behavior(rule.behavior, "keys"),
            expected=_content(rule.expected, "expected"),
            resolved=_content(rule.resolved, "resolved"),
        )
        for rule in body.keys
    }
    if len(by_key) != len(body.keys):
        raise InvalidInput("a key has two rules.", field="keys", remedy="Name each key once.")
    return MergeRules(default=_behavior(body.default, "default"), by_key=by_key)


def _behavior(text: str, field: str) -> Behavior:
    try:
        return Behavior(text)
    except ValueError:
        names = ", ".join(Behavior)
        raise InvalidInput(f"{text[:40]!r} is not a merge behavior.", field=field, remedy=f"Use {names}.") from None


def _content(given: ContentInfo | UnsetType | None, field: str) -> Content | UnsetType | None:
    if given is None or given is UNSET:
        return given
    try:
        id = content_id_bytes(given.content_id)
    except ValueError:
        raise InvalidInput(
            f"{given.content_id[:40]!r} is not a content id.", field=field, remedy="Send the id that was read."
        ) from None
    return Content(id, given.type, typed_value(given.type, given.value, field).value)


def _shown(content: Content | None) -> ContentInfo | None:
    if content is None:
        return None
    return ContentInfo(type=content.type, content_id=content_id_text(content.content_id), value=content.value)


ROUTES = (
    Route(
        "POST",
        f"{IN_CATALOG}/merge",
        "Merge a branch, tag or commit into a branch, as one commit.",
        merge,
        Over.CATALOG.needs(Right.CATALOG_WRITE),
        BODY,
        body=MergeBody,
        answer=CommitAnswer,
    ),
    Route(
        "POST",
        f"{IN_CATALOG}/merge-preview",
        "What a merge would do, key by key; nothing is written.",
        preview,
        Over.CATALOG.needs(Right.CATALOG_READ),
        BODY,
        body=MergeBody,
        answer=MergePreview,
    ),
    Route(
        "POST",
        f"{IN_CATALOG}/transplant",
        "Copy single commits to a branch, oldest first, all or none.",
        transplant,
        Over.CATALOG.needs(Right.CATALOG_WRITE),
        BODY,
        body=TransplantBody,
        answer=CommitAnswer,
    ),
    Route(
        "GET",
        f"{IN_CATALOG}/diff",
        "The keys at which two references or commits differ, in key order.",
        diff,
        Over.CATALOG.needs(Right.CATALOG_READ),
        parameters=parameters.DIFF,
        answer=DiffAnswer,
    ),
)
