"""Turns a Nessie client's puts, deletes and reads into one catalog commit, by the rules that its clients know.

A put without a content id makes a content, one with an id replaces that content. Conflicts are looked for since the expected
commit. A delete and a put of the same content id under another key are a rename.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from typing import TypeAlias

import msgspec

from headwater.persistence.commit.commit_outcome import CommitOutcome
from headwater.persistence.log.committed_requests import RequestKey
from headwater.persistence.log.log_entry import Content
from headwater.producer.commits.catalog_commit import CatalogCommit
from headwater.producer.commits.commit_meta import CommitMeta
from headwater.producer.commits.conflicts import ConflictKind
from headwater.producer.commits.operations import CatalogOperation, Delete, Put, Rename, Unchanged
from headwater.producer.content.content_types import AnyContent, to_value
from headwater.producer.json_safety import same_value
from headwater.schemas.change import KeyPath, Op
from headwater.schemas.entry_ids import EMPTY, content_id_text, parse_id
from headwater.schemas.errors import CommitConflict, HeadwaterError, InvalidInput
from headwater.service.nessie.operations.catalog_view import CatalogView
from headwater.service.nessie.operations.entries import read_contents
from headwater.service.nessie.reference_paths import ReferencePath

RULED_BY_IDS = (ConflictKind.KEY_EXISTS, ConflictKind.KEY_DOES_NOT_EXIST, ConflictKind.CONTENT_ID_DIFFERS)


class PutContent(msgspec.Struct, frozen=True, gc=False):
    key: KeyPath
    content: AnyContent
    content_id: str | None


class DeleteContent(msgspec.Struct, frozen=True, gc=False):
    key: KeyPath


class KeepContent(msgspec.Struct, frozen=True, gc=False):
    """Must be as it was at the expected commit."""

    key: KeyPath


Wanted: TypeAlias = PutContent | DeleteContent | KeepContent


def may_rename(wanted: Sequence[Wanted]) -> bool:
    """Whether the state must be read to know what is meant."""
    return any(isinstance(one, DeleteContent) for one in wanted) and any(
        isinstance(one, PutContent) and one.content_id is not None for one in wanted
    )


def plain_operations(wanted: Sequence[Wanted], expected: str | None) -> list[CatalogOperation]:
    """Without renames. Reads that must hold do so by themselves where no earlier commit is named."""
    return [
        operation for one in wanted if (operation := _operation(one)) and (expected or not isinstance(operation, Unchanged))
    ]


def operations_with_renames(
    view: CatalogView, pointer: str, wanted: Sequence[Wanted], expected: str | None
) -> list[CatalogOperation]:
    """⚠ Which content a delete takes away is read here and checked again by the commit: content ids are expected there."""
    there = _at_head(view, pointer, wanted)
    deleted = {there[one.key].content_id: one.key for one in wanted if isinstance(one, DeleteContent) and one.key in there}
    renames = {
        one.key: from_key
        for one in wanted
        if isinstance(one, PutContent)
        and one.content_id is not None
        and one.key not in there
        and (from_key := deleted.get(_raw_id(one.content_id))) is not None
    }
    gone = set(renames.values())
    operations: list[CatalogOperation] = []
    for one in wanted:
        if isinstance(one, PutContent) and one.key in renames:
            operations += _renamed(one, renames[one.key], there[renames[one.key]])
        elif not (isinstance(one, DeleteContent) and one.key in gone):
            operations += plain_operations([one], expected)
    return operations


def request_of(
    view: CatalogView,
    operations: Sequence[CatalogOperation],
    meta: CommitMeta,
    expected: str | None,
    request_id: str | RequestKey | None,
    expected_head: str | None = None,
) -> CatalogCommit:
    return CatalogCommit(
        view.kernel, operations, meta, request_id=request_id, base_commit=expected, expected_head=expected_head
    )


def added_contents(answer: CommitOutcome) -> list[tuple[KeyPath, str]]:
    if answer.logged is None:
        return []
    return [
        (op.key, content_id_text(op.content_id))
        for op in answer.logged.entry.operations
        if op.op is Op.PUT and op.before is None
    ]


def told_by_their_rules(
    view: CatalogView, refused: CommitConflict, wanted: Sequence[Wanted], path: ReferencePath, expected: str
) -> HeadwaterError:
    """What was wrong already at the commit that the client has seen is the client's mistake, no conflict."""
    kinds = list(_conflicts(refused))
    if any(kind == ConflictKind.UNEXPECTED_HASH for kind, _ in kinds):
        return view.not_in_reference(expected, path)
    puts = {one.key: one for one in wanted if isinstance(one, PutContent)}
    asked = [key for kind, key in kinds if kind in RULED_BY_IDS and key in puts]
    seen = _contents_at(view, expected, asked) if asked else {}
    for key in asked:
        fault = _fault(puts[key], seen.get(key))
        if fault is not None:
            return InvalidInput(fault, field=f"operations.{'.'.join(key)}", remedy="Read the content, then put it with its id.")
    return refused


# ── steps ───────────────────────────────────────────────────────────────────────────────────────────────────


def _operation(one: Wanted) -> CatalogOperation:
    if isinstance(one, DeleteContent):
        return Delete(one.key)
    if isinstance(one, KeepContent):
        return Unchanged(one.key)
    if one.content_id is None:
        return Put(one.key, one.content, must_not_exist=True)
    return Put(one.key, one.content, expected_content_id=one.content_id)


def _renamed(put: PutContent, from_key: KeyPath, there: Content) -> list[CatalogOperation]:
    """One rename where the content stays as it is, else its end here and its beginning there under the same id."""
    if same_value(to_value(put.content).value, there.value):
        return [Rename(from_key, put.key, expected_content_id=put.content_id)]
    return [
        Delete(from_key, expected_content_id=put.content_id),
        Put(put.key, put.content, must_not_exist=True, content_id=put.content_id),
    ]


def _conflicts(refused: CommitConflict) -> Iterator[tuple[str, KeyPath]]:
    conflicts = refused.facts.get("conflicts")
    for one in conflicts if isinstance(conflicts, list) else ():
        if isinstance(one, dict) and isinstance(key := one.get("key"), list):
            yield str(one.get("kind")), tuple(str(element) for element in key)


def _at_head(view: CatalogView, pointer: str, wanted: Sequence[Wanted]) -> dict[KeyPath, Content]:
    head = view.draft(pointer)
    keys = {one.key: value for one in wanted if (value := head.find(one.key)) is not None}
    contents = head.contents(keys.values())
    return {key: contents[value.object_id] for key, value in keys.items()}


def _contents_at(view: CatalogView, commit: str, keys: list[KeyPath]) -> dict[KeyPath, Content]:
    raw = parse_id(commit)
    return {} if raw == EMPTY else read_contents(view.kernel, view.pinned(raw), keys)


def _fault(put: PutContent, seen: Content | None) -> str | None:
    if put.content_id is None:
        return None if seen is None else "the key exists already, so a new value for it needs its content id."
    if seen is None:
        return "the key does not exist, so a value for it must not have a content id."
    if seen.content_id != _raw_id(put.content_id):
        return f"the content at the key has the id {content_id_text(seen.content_id)}, not {put.content_id}."
    return None


def _raw_id(text: str) -> bytes:
    try:
        return uuid.UUID(text).bytes
    except ValueError:
        return b""
