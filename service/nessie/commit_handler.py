"""`POST …/history/commit`: commits operations, and returns the branch and the ids of new contents."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import TypeAlias

import msgspec

from headwater.persistence.commit.commit_outcome import CommitOutcome
from headwater.producer.commits.operations import CatalogOperation
from headwater.producer.content import content_types
from headwater.producer.pointer_names import branch_pointer
from headwater.schemas.errors import CommitConflict, InvalidInput, ReferenceNotFound
from headwater.service.auth.rights.rights import Right, Securable
from headwater.service.http.responses import JSON, NO_STORE, Response
from headwater.service.iceberg.put_checks import BranchOfCatalog, commit_checked
from headwater.service.nessie.call import Key, NessieCall
from headwater.service.nessie.content_json import NessieContent
from headwater.service.nessie.meta_json import MetaBody, read_headers, require_message, to_meta
from headwater.service.nessie.operations.catalog_view import CatalogView
from headwater.service.nessie.operations.commits import (
    DeleteContent,
    KeepContent,
    PutContent,
    Wanted,
    added_contents,
    may_rename,
    operations_with_renames,
    plain_operations,
    request_of,
    told_by_their_rules,
)
from headwater.service.nessie.reference_paths import ReferencePath

INTO = "commit"
CONTROL = re.compile(r"[\x00-\x1f\x7f]")
"""What paths cannot carry: some of these stand for dots there."""


class PutBody(msgspec.Struct, frozen=True, gc=False, tag="PUT"):
    """`documentation`, `metadata` and the old `expectedContent` are not kept."""

    key: Key
    content: NessieContent

    def wanted(self) -> Wanted:
        if CONTROL.search("".join(self.key.elements)):
            raise InvalidInput("a key has control characters.", field="operations.key", remedy="Leave them out.")
        return PutContent(self.key.path, self.content.ours(), self.content.id)


class DeleteBody(msgspec.Struct, frozen=True, gc=False, tag="DELETE"):
    key: Key

    def wanted(self) -> Wanted:
        return DeleteContent(self.key.path)


class UnchangedBody(msgspec.Struct, frozen=True, gc=False, tag="UNCHANGED"):
    key: Key

    def wanted(self) -> Wanted:
        return KeepContent(self.key.path)


OperationBody: TypeAlias = PutBody | DeleteBody | UnchangedBody


class CommitBody(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    commit_meta: MetaBody
    operations: list[OperationBody]


_encode = msgspec.json.Encoder().encode


async def commit(call: NessieCall) -> Response:
    """On the loop: where nothing but the lane must be asked, no thread is."""
    body, path, view = call.read(CommitBody), call.reference, call.view
    if not body.operations:
        raise InvalidInput("a commit has no operations.", field="operations", remedy="Send one at least.")
    meta = require_message(to_meta(body.commit_meta, read_headers(call.scope["headers"]), call.principal))
    wanted = call.wanted or [operation.wanted() for operation in body.operations]
    branch, expected = view.name_of(path), path.hash or None
    if branch is None or not (path.is_plain or path.is_head):
        at = await asyncio.to_thread(view.branch_at, path, INTO)
        branch, expected = at.name or "", at.hash
    elif expected is None and view.hash_required:
        await asyncio.to_thread(view.branch_at, path, INTO)  # refuses it, for what is wrong first
    pointer = branch_pointer(view.catalog.id, branch)
    operations = await _operations(view, pointer, wanted, expected)
    if not operations:
        return await _nothing(view, path)

    async def send(operations: Sequence[CatalogOperation], expected_head: str | None) -> CommitOutcome:
        request = request_of(view, operations, meta, expected, call.request_id, expected_head)
        return await view.kernel.committer.commit_async(pointer, request)

    try:
        on_branch = BranchOfCatalog(view.kernel, view.catalog, pointer)
        answer = await commit_checked(call.service.lakes, on_branch, operations, call.request_id, send)
    except CommitConflict as conflict:
        if expected is None:
            raise
        raise await asyncio.to_thread(told_by_their_rules, view, conflict, wanted, path, expected) from None
    except ReferenceNotFound:
        await asyncio.to_thread(view.require_branch, path, INTO)  # a tag of that name is refused as one
        raise
    return _answer(branch, answer)


async def require_rights(call: NessieCall) -> None:
    """Over the whole catalog, or over each key what is done there. What a delete takes away is not known before."""
    catalog, caller = call.catalog_name, call.caller
    if caller.development or await call.access.allows(caller, Right.COMMIT_WRITE, Securable(catalog)):
        return
    call.wanted = [operation.wanted() for operation in call.read(CommitBody).operations]
    for one in call.wanted:
        await call.access.require(caller, _right(one), Securable(catalog, one.key))
    if not call.wanted:
        await call.access.require(caller, Right.COMMIT_WRITE, Securable(catalog))


def _right(wanted: Wanted) -> Right:
    if isinstance(wanted, KeepContent):
        return Right.TABLE_READ
    if isinstance(wanted, DeleteContent):
        return Right.COMMIT_WRITE
    create, write = RIGHTS.get(type(wanted.content), (Right.COMMIT_WRITE, Right.COMMIT_WRITE))
    return create if wanted.content_id is None else write


RIGHTS: dict[type, tuple[Right, Right]] = {
    content_types.Namespace: (Right.NAMESPACE_CREATE, Right.NAMESPACE_WRITE),
    content_types.IcebergTable: (Right.TABLE_CREATE, Right.TABLE_WRITE),
    content_types.DeltaTable: (Right.TABLE_CREATE, Right.TABLE_WRITE),
    content_types.IcebergView: (Right.VIEW_CREATE, Right.VIEW_WRITE),
}
"""To create, and to replace."""


async def _operations(
    view: CatalogView, pointer: str, wanted: list[Wanted], expected: str | None
) -> Sequence[CatalogOperation]:
    if may_rename(wanted):
        return await asyncio.to_thread(operations_with_renames, view, pointer, wanted, expected)
    return plain_operations(wanted, expected)


async def _nothing(view: CatalogView, path: ReferencePath) -> Response:
    """Only reads that must hold, of the newest commit: they do."""
    found = await asyncio.to_thread(view.branch_at, path, INTO)
    return _branch_answer(found.name or "", found.hash, b"[]")


def _answer(branch: str, answer: CommitOutcome) -> Response:
    added = [{"key": {"elements": key}, "contentId": content_id} for key, content_id in added_contents(answer)]
    hash = answer.head_commit if answer.logged is None else answer.logged.commit
    return _branch_answer(branch, hash.hex(), _encode(added))


def _branch_answer(branch: str, hash: str, added: bytes) -> Response:
    return Response(
        200,
        [JSON, NO_STORE],
        b'{"targetBranch":{"type":"BRANCH","name":%b,"hash":"%b"},"addedContents":%b}'
        % (_encode(branch), hash.encode(), added),
    )
