"""Sends merges, transplants and diffs to a server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

from msgspec import UNSET, UnsetType

from headwater.client.server_calls import ServerCalls, commit_outcome
from headwater.commit_options import MergeOptions
from headwater.consumers.clients.feed_http import Query
from headwater.persistence.log.log_entry import Content
from headwater.producer.commits.catalog_commit import CommitResult
from headwater.producer.merging.apply_changes import MergeRules
from headwater.producer.merging.changed_keys import ChangedKey
from headwater.schemas.entry_ids import content_id_bytes, content_id_text
from headwater.schemas.http.merge_json import ContentInfo, DiffAnswer, KeyRuleBody, MergeBody, TransplantBody


def merge_fields(into: str | None, options: MergeOptions) -> dict[str, Any]:
    rules = options.get("rules") or MergeRules()
    return {
        "into": into,
        "author": options.get("author"),
        "message": options.get("message", ""),
        "default": str(rules.default),
        "keys": [
            KeyRuleBody(key=key, behavior=str(rule.behavior), expected=_shown(rule.expected), resolved=_shown(rule.resolved))
            for key, rule in rules.by_key.items()
        ],
        "expected_head": options.get("expected_head"),
    }


def send_merge(calls: ServerCalls, catalog: str, body: MergeBody | TransplantBody, options: MergeOptions) -> CommitResult:
    path = catalog_path(calls, catalog, "merge" if isinstance(body, MergeBody) else "transplant")
    return commit_outcome(calls.commit(path, body, options.get("request_id")))


def catalog_path(calls: ServerCalls, catalog: str, last: str) -> str:
    realm = quote(calls.target.realm, safe="")
    return f"{calls.target.server}/manage/v1/{realm}/catalogs/{quote(catalog, safe='')}/{last}"


def read_diff(calls: ServerCalls, catalog: str, before: str, after: str) -> Iterator[ChangedKey]:
    """The two states are resolved with the first page; later pages compare the same two. ⚠ Requested now, not when the first
    key is needed, so that a name that does not exist fails here."""
    path = catalog_path(calls, catalog, "diff")
    return _keys(calls, path, calls.get(path, [("before", before), ("after", after)], DiffAnswer))


def _keys(calls: ServerCalls, path: str, page: DiffAnswer) -> Iterator[ChangedKey]:
    while True:
        for entry in page.diff:
            yield ChangedKey(entry.key, _content(entry.before), _content(entry.after))
        if page.next_token is None:
            return
        query: Query = [("before", page.before), ("after", page.after), ("token", page.next_token)]
        page = calls.get(path, query, DiffAnswer)


def _content(info: ContentInfo | None) -> Content | None:
    return None if info is None else Content(content_id_bytes(info.content_id), info.type, info.value)


def _shown(content: Content | UnsetType | None) -> ContentInfo | UnsetType | None:
    if content is None or content is UNSET:
        return content
    return ContentInfo(type=content.type, content_id=content_id_text(content.content_id), value=content.value)
