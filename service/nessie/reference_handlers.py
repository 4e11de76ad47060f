"""Handlers of references: list, get, create, assign, delete, recent heads."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from headwater.producer.commits.commit_meta import CommitMeta
from headwater.producer.pointer_names import ReferenceType
from headwater.producer.references.reference_resolution import Resolved
from headwater.producer.references.references import PAGE_REFERENCES_MAX, Reference
from headwater.schemas.errors import CommitConflict, InvalidInput
from headwater.service.http.responses import Response, json_response
from headwater.service.nessie.answers import page_json, reference_json
from headwater.service.nessie.call import NessieCall
from headwater.service.nessie.meta_json import meta_json
from headwater.service.nessie.operations import recent_heads as recent
from headwater.service.nessie.operations.catalog_view import CatalogView
from headwater.service.nessie.operations.cel_values import NO_COMMIT, NO_METADATA, commit_value
from headwater.service.nessie.operations.filters import FILTER_SECONDS_MAX, REFERENCE_NAMES, CelFilter
from headwater.service.nessie.operations.reference_facts import CommitLine, distance, line_of
from headwater.service.nessie.reference_paths import ReferencePath, reference_path

PAGE_WITH_FACTS_MAX = 250


class ReferenceBody(msgspec.Struct, frozen=True):
    """A branch, a tag, or a commit without either."""

    type: str = "BRANCH"
    name: str | None = None
    hash: str | None = None

    def path(self) -> ReferencePath:
        return reference_path(self.name, self.hash, "body")


# ── reading ─────────────────────────────────────────────────────────────────────────────────────────────────


def list_references(call: NessieCall) -> Response:
    facts = _facts(call)
    limit_max = PAGE_REFERENCES_MAX if facts is None else PAGE_WITH_FACTS_MAX
    limit = min(call.number("max-records") or limit_max, limit_max)
    filter = call.filter(REFERENCE_NAMES)
    page = call.view.references.list(token=call.text("page-token"), limit=limit)
    references, last = [], None
    deadline = time.monotonic() + FILTER_SECONDS_MAX
    for reference in page.references:
        if filter is not None and last is not None and time.monotonic() > deadline:
            return json_response(page_json(last.pointer, references=references))
        one = _shown(call.view, reference, facts)
        if filter is None or _passes(filter, call.view, reference, one):
            references.append(one)
        last = reference
    return json_response(page_json(page.next_token, references=references))


def get_reference(call: NessieCall) -> Response:
    facts = _facts(call)
    reference = _named(call)
    return json_response({"reference": _shown(call.view, reference, facts)})


def recent_changes(call: NessieCall) -> Response:
    reference = _named(call)
    found = call.view.find(reference_path(reference.name, None))
    heads = recent.recent_heads(call.view, found, call.number("scan-commits"))
    return json_response(
        {
            "reference": reference_json(reference.name, reference.type, heads.current.hash.hex()),
            "current": _head_json(heads.current),
            "previous": [_head_json(head) for head in heads.previous],
            "commitLogConsistency": str(heads.log),
        }
    )


def _named(call: NessieCall) -> Reference:
    path = call.reference
    if path.name is None or path.hash or path.steps:
        raise InvalidInput("Hashes are not allowed when fetching a reference by name", field="ref")
    return call.view.references.get(path.name)


def _head_json(head: recent.RecentHead) -> dict[str, Any]:
    fields: dict[str, Any] = {"commitHash": head.hash.hex(), "commitConsistency": str(head.consistency)}
    return fields if head.logged is None else {**fields, "meta": meta_json(head.logged)}


# ── moving ──────────────────────────────────────────────────────────────────────────────────────────────────


def create_reference(call: NessieCall) -> Response:
    name, type = call.required("name"), call.reference_type
    if type is None:
        raise InvalidInput("it is missing.", field="type", remedy="Use BRANCH or TAG.")
    source = call.read(ReferenceBody).path() if call.body.strip() not in (b"", b"null") else None
    target = call.view.find(ReferencePath("-")) if source is None else call.view.find_own(source, "Target hash")
    created = call.view.references.create(
        name,
        Resolved(target.pointer, target.logged),
        type=type,
        meta=CommitMeta(call.principal),
        request_id=call.request_id,
    )
    return json_response({"reference": reference_json(name, type, created.commit_id)})


def assign_reference(call: NessieCall) -> Response:
    moved, expected = _to_move(call)
    target = call.view.find_own(call.read(ReferenceBody).path(), "Target hash")
    with _told_as_named(moved, expected):
        assigned = call.view.references.assign(
            moved.name,
            Resolved(target.pointer, target.logged),
            expected_head=expected,
            type=moved.type,
            meta=CommitMeta(call.principal),
            request_id=call.request_id,
        )
    return json_response({"reference": reference_json(moved.name, moved.type, assigned.commit_id)})


def delete_reference(call: NessieCall) -> Response:
    moved, expected = _to_move(call)
    with _told_as_named(moved, expected):
        call.view.references.delete(
            moved.name, expected_head=expected, type=moved.type, meta=CommitMeta(call.principal), request_id=call.request_id
        )
    return json_response({"reference": reference_json(moved.name, moved.type, expected or moved.commit_id)})


def _to_move(call: NessieCall) -> tuple[Reference, str | None]:
    """What is to be moved, and the commit that it must be at."""
    path, type = call.reference, call.reference_type
    if path.name is None:
        raise InvalidInput("Assignment target must be a branch or a tag.", field="ref", remedy="Name a branch or tag.")
    named = call.view.names_commit(path)
    there = call.view.references.get(path.name, deleted_ok=call.request_id is not None)
    if type is not None and type is not there.type:
        raise InvalidInput(
            f"Expected reference type {type} does not match existing reference '{there.name}', a {there.type}.", field="type"
        )
    if not named:
        return there, None
    return there, path.hash if path.is_plain else call.view.commit_of(path).commit_id


@contextmanager
def _told_as_named(moved: Reference, expected: str | None) -> Iterator[None]:
    """The error for a reference at another hash, in Nessie's words."""
    try:
        yield
    except CommitConflict as conflict:
        message = f"Named-reference '{moved.name}' is not at expected hash '{expected}', but at '{moved.commit_id}'."
        conflicts = conflict.facts.get("conflicts")
        raise CommitConflict(message, remedy="Read the reference again.", conflicts=conflicts) from None


# ── facts ───────────────────────────────────────────────────────────────────────────────────────────────────


def _facts(call: NessieCall) -> _Facts | None:
    return _Facts(call.view) if call.fetches_all else None


class _Facts:
    """About references, with the default branch looked up once."""

    def __init__(self, view: CatalogView) -> None:
        self._view = view
        self._default = line_of(view.kernel, view.references.resolve("-").logged)

    def of(self, reference: Reference) -> dict[str, Any]:
        logged = self._view.references.resolve(reference.name, type=reference.type).logged
        commit, line = self._view.committed(logged), line_of(self._view.kernel, logged)
        fields: dict[str, Any] = {"numTotalCommits": line.total}
        if commit is not None:
            fields["commitMetaOfHEAD"] = meta_json(commit)
        if reference.type is ReferenceType.BRANCH and reference.name != self._view.catalog.default_branch:
            fields |= self._distance(line)
        return fields

    def _distance(self, line: CommitLine) -> dict[str, Any]:
        found = distance(self._view.kernel, line, self._default)
        if found is None:
            return {"numCommitsAhead": line.total, "numCommitsBehind": self._default.total}
        return {
            "numCommitsAhead": found.ahead,
            "numCommitsBehind": found.behind,
            "commonAncestorHash": found.ancestor.hex(),
        }


def _shown(view: CatalogView, reference: Reference, facts: _Facts | None) -> dict[str, Any]:
    fields = reference_json(reference.name, reference.type, reference.commit_id)
    return fields if facts is None else {**fields, "metadata": facts.of(reference)}


def _passes(filter: CelFilter, view: CatalogView, reference: Reference, fields: dict[str, Any]) -> bool:
    known = fields.get("metadata")
    commit = NO_COMMIT
    if known is not None and filter.names & {"commit", "refMeta", "ref"} and "commitMetaOfHEAD" in known:
        commit = commit_value(view.pinned(bytes.fromhex(known["commitMetaOfHEAD"]["hash"])))
    metadata = {**NO_METADATA, **(known or {}), "commitMetaOfHEAD": commit}
    return filter.matches(
        {
            "ref": {**reference_json(reference.name, reference.type, reference.commit_id), "metadata": metadata},
            "refType": str(reference.type),
            "refMeta": metadata,
            "commit": commit,
        }
    )
