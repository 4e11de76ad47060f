"""Handlers of merges and transplants, done or tried, with the result for every key."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from headwater.persistence.log.log_entry import Content
from headwater.producer.content.content_types import to_value
from headwater.producer.merging.apply_changes import KeyOutcome, MergeRules
from headwater.producer.merging.three_way import Behavior, KeyRule
from headwater.producer.merging.transplant import COMMITS_MAX
from headwater.schemas.change import COMMITTING_KINDS
from headwater.schemas.entry_ids import content_id_bytes
from headwater.schemas.errors import InvalidInput
from headwater.service.http.responses import Response, json_response
from headwater.service.iceberg.put_checks import check_rules
from headwater.service.nessie.call import Key, NessieCall
from headwater.service.nessie.content_json import NessieContent
from headwater.service.nessie.error_shape import conflict_json
from headwater.service.nessie.meta_json import MetaBody, read_headers, to_meta
from headwater.service.nessie.operations.catalog_view import Effective
from headwater.service.nessie.operations.merges import MergeResult, WatchedTransplant, merge_request, run
from headwater.service.nessie.reference_paths import reference_path

Mode = Literal["NORMAL", "FORCE", "DROP"]


class KeyModeBody(msgspec.Struct, frozen=True, rename="camel"):
    key: Key
    merge_behavior: Mode = "NORMAL"
    expected_target_content: NessieContent | None = None
    resolved_content: NessieContent | None = None


class BringingBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """⚠ The specification writes `dryRun` and `returnConflictAsResult`, Nessie's own client `isDryRun` and so on: a dry
    run must be recognized in both spellings."""

    from_ref_name: str
    message: str | None = None
    key_merge_modes: list[KeyModeBody] | None = None
    default_key_merge_mode: Mode | None = None
    dry_run: bool | None = None
    is_dry_run: bool | None = None
    return_conflict_as_result: bool | None = None
    is_return_conflict_as_result: bool | None = None

    @property
    def tries_only(self) -> bool:
        return bool(self.dry_run or self.is_dry_run)

    @property
    def wants_conflicts_returned(self) -> bool:
        return bool(self.return_conflict_as_result or self.is_return_conflict_as_result)


class MergeBody(BringingBody, frozen=True, kw_only=True, rename="camel"):
    from_hash: str | None = None
    commit_meta: MetaBody | None = None


class TransplantBody(BringingBody, frozen=True, kw_only=True, rename="camel"):
    hashes_to_transplant: list[str]


def merge(call: NessieCall) -> Response:
    body, view = call.read(MergeBody), call.view
    branch = view.branch_at(call.reference, "merge")
    source = view.find_own(reference_path(body.from_ref_name, body.from_hash, "fromRefName"), "Source hash")
    given = body.commit_meta or MetaBody()
    if not given.message:
        given = msgspec.structs.replace(given, message=body.message or "")
    meta = to_meta(given, read_headers(call.scope["headers"]), call.principal)
    if not meta.message:
        message = f"Merged {body.from_ref_name} at {source.hash} into {branch.name} at {branch.hash}"
        meta = msgspec.structs.replace(meta, message=message)
    request = merge_request(view, source, meta, _checked_rules(call, body), call.request_id)
    return _answer(call, branch, run(view, branch, request, dry_run=body.tries_only), body)


def transplant(call: NessieCall) -> Response:
    body, view = call.read(TransplantBody), call.view
    if not 1 <= len(body.hashes_to_transplant) <= COMMITS_MAX:
        raise InvalidInput(
            f"{len(body.hashes_to_transplant)} commits are named.",
            field="hashesToTransplant",
            remedy=f"Name 1 to {COMMITS_MAX}, oldest first.",
        )
    branch = view.branch_at(call.reference, "transplant")
    paths = [reference_path(body.from_ref_name, hash, "hashesToTransplant") for hash in body.hashes_to_transplant]
    commits = [view.find_own(path, "Hash to transplant").logged for path in paths]
    commits = [view.committed(commit) or commit for commit in commits]
    if any(commit.entry.kind not in COMMITTING_KINDS for commit in commits):
        raise InvalidInput("the empty state is not a commit.", field="hashesToTransplant", remedy="Name commits.")
    # One message for many commits would hide what each of them was: then every commit keeps its own.
    message = body.message or "" if len(commits) == 1 else ""
    meta = to_meta(MetaBody(message=message), read_headers(call.scope["headers"]), call.principal)
    rules, history = _checked_rules(call, body), view.history
    request = WatchedTransplant(view.kernel, commits, meta, rules=rules, request_id=call.request_id, history=history)
    return _answer(call, branch, run(view, branch, request, dry_run=body.tries_only), body)


# ── rules ───────────────────────────────────────────────────────────────────────────────────────────────────


def _checked_rules(call: NessieCall, body: BringingBody) -> MergeRules:
    return check_rules(call.service.lakes, call.view.catalog, _rules(body))


def _rules(body: BringingBody) -> MergeRules:
    modes = body.key_merge_modes or []
    by_key = {mode.key.path: _rule(mode) for mode in modes}
    if len(by_key) != len(modes):
        raise InvalidInput("a key has two modes.", field="keyMergeModes", remedy="Name each key once.")
    return MergeRules(default=Behavior(body.default_key_merge_mode or "NORMAL"), by_key=by_key)


def _rule(mode: KeyModeBody) -> KeyRule:
    return KeyRule(
        behavior=Behavior(mode.merge_behavior),
        expected=_content(mode.expected_target_content, "expectedTargetContent"),
        resolved=_content(mode.resolved_content, "resolvedContent"),
    )


def _content(given: NessieContent | None, field: str) -> Content | UnsetType:
    if given is None:
        return UNSET
    typed = to_value(given.ours(), field)
    try:
        return Content(content_id_bytes(given.id or ""), typed.type, typed.value) if given.id else _no_id(field)
    except ValueError:
        return _no_id(field)


def _no_id(field: str) -> Content:
    raise InvalidInput("it has no content id, or one that is not a UUID.", field=field, remedy="Send the id that was read.")


# ── answers ─────────────────────────────────────────────────────────────────────────────────────────────────


def _answer(call: NessieCall, branch: Effective, result: MergeResult, body: BringingBody) -> Response:
    if result.refusal is not None and not body.wants_conflicts_returned:
        raise result.refusal
    rules = _rules(body)
    fields: dict[str, Any] = {
        "wasApplied": result.applied,
        "wasSuccessful": result.successful,
        "targetBranch": branch.name,
        "effectiveTargetHash": result.head_before.hex(),
        "details": [_detail(outcome, rules) for outcome in result.outcomes],
    }
    if result.successful:
        fields["resultantTargetHash"] = result.head_after.hex()
    if result.ancestor is not None:
        fields["commonAncestor"] = result.ancestor.hex()
    if call.reference.hash:
        fields["expectedHash"] = branch.hash
    return json_response(fields)


def _detail(outcome: KeyOutcome, rules: MergeRules) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "key": {"elements": outcome.key},
        "mergeBehavior": str(rules.of(outcome.key).behavior),
    }
    conflict = outcome.conflict
    return fields if conflict is None else {**fields, "conflict": conflict_json(conflict.kind, conflict.key, conflict.message)}
