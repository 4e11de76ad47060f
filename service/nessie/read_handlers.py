"""Handlers that read: history, entries, contents, diff, configuration."""

from __future__ import annotations

from typing import Any

import msgspec

from headwater.producer.access.writing import WriteMeta
from headwater.producer.page_tokens import make_token, read_token
from headwater.schemas.change import KeyPath
from headwater.schemas.entry_ids import EMPTY, time_text
from headwater.schemas.errors import ContentNotFound, InvalidInput
from headwater.service.http.responses import Response, json_response
from headwater.service.nessie.answers import effective_json, key_json, log_entry_json, page_json, stored_json
from headwater.service.nessie.call import Key, NessieCall
from headwater.service.nessie.operations.diffs import read_diff
from headwater.service.nessie.operations.entries import read_contents, read_entries
from headwater.service.nessie.operations.filters import COMMIT_NAMES, ENTRY_NAMES, KEY_NAMES
from headwater.service.nessie.operations.history import read_history
from headwater.service.nessie.operations.key_ranges import KEYS_MAX
from headwater.service.nessie.operations.repository_config import read_configs, write_config
from headwater.service.nessie.reference_paths import parse_reference_path, reference_path

SPEC_VERSION = "2.2.0"
API_VERSION = 2


class EntriesPosition(msgspec.Struct, frozen=True, array_like=True):
    entry_id: bytes
    after: bytes


class DiffPosition(msgspec.Struct, frozen=True, array_like=True):
    from_id: bytes
    to_id: bytes
    after: bytes


class KeysBody(msgspec.Struct, frozen=True, rename="camel"):
    requested_keys: list[Key]


# ── configuration ───────────────────────────────────────────────────────────────────────────────────────────


async def config(call: NessieCall) -> Response:
    """On the loop: all of it is known."""
    catalog = call.view.catalog
    created = time_text(catalog.created_at)
    return json_response(
        {
            "defaultBranch": catalog.default_branch,
            "minSupportedApiVersion": API_VERSION,
            "maxSupportedApiVersion": API_VERSION,
            "actualApiVersion": API_VERSION,
            "specVersion": SPEC_VERSION,
            "noAncestorHash": EMPTY.hex(),
            "repositoryCreationTimestamp": created,
            "oldestPossibleCommitTimestamp": created,
            "additionalProperties": {},
        }
    )


class ConfigBody(msgspec.Struct, frozen=True):
    config: dict[str, Any]


def repository_config(call: NessieCall) -> Response:
    return json_response({"configs": read_configs(call.view, call.query.get("type", []))})


def update_repository_config(call: NessieCall) -> Response:
    meta = WriteMeta(call.principal, request_id=call.request_id)
    return json_response({"previous": write_config(call.view, call.read(ConfigBody).config, meta)})


# ── history ─────────────────────────────────────────────────────────────────────────────────────────────────


def history(call: NessieCall) -> Response:
    path, view = call.reference, call.view
    newest = view.find(path, "Youngest hash")
    stop = call.text("limit-hash")
    oldest = None
    if stop is not None:
        stopping = reference_path(path.name, stop, "limit-hash")
        oldest = view.find(stopping, "Oldest hash").logged.commit
    token = call.text("page-token")
    start = newest.logged if token is None else view.find(reference_path(None, token, "page-token")).logged
    page = read_history(
        view.kernel,
        start,
        stop=oldest,
        limit=call.number("max-records"),
        filter=call.filter(COMMIT_NAMES),
        operations=call.fetches_all,
    )
    entries = [log_entry_json(commit, operations=call.fetches_all) for commit in page.commits]
    return json_response(page_json(page.following, logEntries=entries))


# ── entries and contents ────────────────────────────────────────────────────────────────────────────────────


def entries(call: NessieCall) -> Response:
    found, after = call.view.find(call.reference), b""
    if (token := call.text("page-token")) is not None:
        position = read_token(token, EntriesPosition)
        found, after = found.at(call.view.pinned(position.entry_id)), position.after
    with_content = call.flag("content")
    page = read_entries(
        call.view.kernel,
        found.logged,
        call.key_range,
        after=after,
        limit=call.number("max-records"),
        filter=call.filter(ENTRY_NAMES),
    )
    items = []
    for entry in page.entries:
        content = stored_json(entry.key, entry.content)
        one: dict[str, Any] = {"type": content["type"], "name": key_json(entry.key), "contentId": content["id"]}
        items.append({**one, "content": content} if with_content else one)
    next_token = None if page.last is None else make_token(EntriesPosition(found.logged.entry_id, page.last))
    return json_response(page_json(next_token, entries=items, effectiveReference=effective_json(found)))


def content(call: NessieCall) -> Response:
    key = call.key
    found = call.view.find(call.reference)
    contents = read_contents(call.view.kernel, found.logged, [key])
    if key not in contents:
        raise ContentNotFound(f"there is no content at {'.'.join(key)!r} in {found.name or found.hash!r}.", key=list(key))
    return json_response({"content": stored_json(key, contents[key]), "effectiveReference": effective_json(found)})


def some_contents(call: NessieCall) -> Response:
    return _contents(call, list(call.key_range.keys))


def many_contents(call: NessieCall) -> Response:
    return _contents(call, [key.path for key in call.read(KeysBody).requested_keys])


def _contents(call: NessieCall, keys: list[KeyPath]) -> Response:
    """In the order in which they were asked for; what is not there is left out."""
    if len(keys) > KEYS_MAX:
        raise InvalidInput(f"{len(keys)} keys are requested.", field="requestedKeys", remedy=f"Ask for {KEYS_MAX} at most.")
    found = call.view.find(call.reference)
    contents = read_contents(call.view.kernel, found.logged, keys) if keys else {}
    items = [
        {"key": key_json(key), "content": stored_json(key, contents[key])} for key in dict.fromkeys(keys) if key in contents
    ]
    return json_response({"contents": items, "effectiveReference": effective_json(found)})


# ── diff ────────────────────────────────────────────────────────────────────────────────────────────────────


def diff(call: NessieCall) -> Response:
    old = call.view.find(parse_reference_path(call.names["from"], "from-ref"), '"From" hash')
    new = call.view.find(parse_reference_path(call.names["to"], "to-ref"), '"To" hash')
    behind = b""
    if (token := call.text("page-token")) is not None:
        position = read_token(token, DiffPosition)
        old, new = old.at(call.view.pinned(position.from_id)), new.at(call.view.pinned(position.to_id))
        behind = position.after
    page = read_diff(
        call.view.kernel,
        old.logged,
        new.logged,
        call.key_range,
        behind=behind,
        limit=call.number("max-records"),
        filter=call.filter(KEY_NAMES),
    )
    items = []
    for change in page.changes:
        one: dict[str, Any] = {"key": key_json(change.key)}
        if change.before is not None:
            one["from"] = stored_json(change.key, change.before)
        if change.after is not None:
            one["to"] = stored_json(change.key, change.after)
        items.append(one)
    next_token = None if page.last is None else make_token(DiffPosition(old.logged.entry_id, new.logged.entry_id, page.last))
    references = {"effectiveFromReference": effective_json(old), "effectiveToReference": effective_json(new)}
    return json_response(page_json(next_token, diffs=items, **references))
