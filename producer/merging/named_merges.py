"""Merges and transplants whose source and commits are named, for a branch of a catalog."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import msgspec

from headwater.persistence.log.committed_requests import RequestKey
from headwater.persistence.store import RealmKernel
from headwater.producer.commits.commit_meta import CommitMeta
from headwater.producer.merging.apply_changes import MergeRules
from headwater.producer.merging.merge import MergeRequest
from headwater.producer.merging.transplant import TransplantRequest
from headwater.producer.references.references import References
from headwater.schemas.entry_ids import parse_id


def merge_request(
    kernel: RealmKernel,
    references: References,
    source: str,
    meta: CommitMeta,
    *,
    rules: MergeRules | None = None,
    expected_head: str | None = None,
    request_id: str | RequestKey | None = None,
) -> MergeRequest:
    history = kernel.store.restores.history
    resolved = references.resolve(source, field="source")
    return MergeRequest(
        kernel,
        resolved.logged,
        resolved.pointer,
        CommitMeta(meta.author, meta.message or f"Merge {source}", meta.headers),
        rules=rules,
        expected_head=_head(expected_head),
        request_id=_keyed(request_id, "merge", source, meta, rules, expected_head),
        history=history,
    )


def transplant_request(
    kernel: RealmKernel,
    references: References,
    commits: Sequence[str],
    meta: CommitMeta,
    *,
    rules: MergeRules | None = None,
    expected_head: str | None = None,
    request_id: str | RequestKey | None = None,
) -> TransplantRequest:
    history = kernel.store.restores.history
    picked = [references.resolve(commit, field="commits").logged for commit in commits]
    return TransplantRequest(
        kernel,
        picked,
        meta,
        rules=rules,
        expected_head=_head(expected_head),
        request_id=_keyed(request_id, "transplant", commits, meta, rules, expected_head),
        history=history,
    )


def _keyed(
    request_id: str | RequestKey | None,
    what: str,
    brings: str | Sequence[str],
    meta: CommitMeta,
    rules: MergeRules | None,
    expected_head: str | None,
) -> RequestKey | None:
    """⚠ By what was named and not by what that is now: a branch may have moved when its merge is asked for again."""
    if request_id is None or isinstance(request_id, RequestKey):
        return request_id
    rules = rules or MergeRules()
    by_key = sorted(rules.by_key.items())
    canonical = msgspec.msgpack.encode(
        (what, brings, meta.message, rules.default, by_key, expected_head), order="deterministic"
    )
    return RequestKey(request_id, hashlib.sha256(canonical).digest()[:16])


def _head(expected: str | None) -> bytes | None:
    return None if expected is None else parse_id(expected, field="expected_head")
