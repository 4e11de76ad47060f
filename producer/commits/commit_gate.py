"""Refuses a commit that needs a file which is about to be deleted.

⚠ Called while a commit is planned, for the row that it will be applied to: only the fence of that row says which removals the
commit must respect (persistence/coordination/removal_intents.py). While nothing is removed it costs one comparison.

Only contents that come from outside are checked. What a merge, a transplant, a create or an assign copies is part of a
retained state, and so is in use.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from headwater.persistence.commit.draft import Draft, PlannedOperation
from headwater.persistence.coordination.removal_intents import RemovalIntent
from headwater.persistence.store import RealmKernel
from headwater.producer.content.content_types import NAMESPACE
from headwater.producer.content.folding import fold
from headwater.producer.pointer_names import parse_reference_pointer
from headwater.schemas.errors import FilesCondemned, HeadwaterError, RemovalUnderWay


def require_files_stay(kernel: RealmKernel, draft: Draft, operations: Iterable[PlannedOperation]) -> None:
    """`FilesCondemned` with the first file's name; `RemovalUnderWay` if this process cannot check."""
    row = draft.head.row
    fence = row.fence if row is not None and row.head else None
    intents = kernel.store.removals.deleting(kernel.realm, fence)
    if not intents:
        return
    for operation in operations:
        if operation.after is not None and operation.type != NAMESPACE.name and _is_new(operation):
            _check(kernel, draft.pointer, operation, operation.after, intents)


def _is_new(operation: PlannedOperation) -> bool:
    """A content that the branch holds already, here or under another key, is in use."""
    return operation.before is None or operation.before != operation.after


def _check(
    kernel: RealmKernel,
    pointer: str,
    operation: PlannedOperation,
    after: Mapping[str, Any],
    intents: Sequence[RemovalIntent],
) -> None:
    near = [intent for intent in intents if covers(intent, kernel.realm, pointer, locations_of(after))]
    beside = [intent for intent in intents if intent not in near and shares_storage(intent, locations_of(after))]
    if not near and not beside:
        return
    condemned: str | None = None
    try:
        if kernel.store.reach_files is None:
            raise RemovalUnderWay("this process has no access to file storage.")
        condemned = kernel.store.reach_files().first_condemned([*near, *beside], operation.type, after, operation.before)
    except HeadwaterError as error:
        if near or (error.retriable and kernel.store.reach_files is not None):  # ⚠ what is away for a moment is no answer
            raise _not_known(operation, [*near, *beside][0], error) from error
    if condemned is not None:
        raise FilesCondemned(
            f"'{'.'.join(operation.key)}' needs {condemned[:500]}, which is about to be deleted: no retained state used it.",
            field="metadata_location",
            remedy="Write the files again under new names, and commit those.",
            file=condemned[:1_000],
        )


def covers(intent: RemovalIntent, realm: str, pointer: str, locations: Sequence[str]) -> bool:
    """Whether the commit is near: in the catalog of the root, below the root, or at a place that the content does not name."""
    named = parse_reference_pointer(pointer)
    if realm == intent.realm and named is not None and named.catalog_id == intent.catalog_id:
        return True
    root = fold(intent.root)
    return not locations or any(fold(location).startswith(root) for location in locations)


def shares_storage(intent: RemovalIntent, locations: Sequence[str]) -> bool:
    """A table elsewhere may name files below the root, too. It is checked where the same storage answers for both."""
    return any(_storage(location) == _storage(intent.root) for location in locations)


def locations_of(value: Mapping[str, Any]) -> list[str]:
    named = value.get("metadata_location")
    history = value.get("metadata_location_history")
    found = [named] if isinstance(named, str) and named else []
    return [*found, *(one for one in history or () if isinstance(one, str))] if isinstance(history, list) else found


def _storage(location: str) -> str:
    """The authority: s3://b and s3a://b are one storage. Empty for local files."""
    _, separator, rest = location.partition("://")
    return rest.partition("/")[0] if separator else ""


def _not_known(operation: PlannedOperation, intent: RemovalIntent, error: HeadwaterError) -> RemovalUnderWay:
    return RemovalUnderWay(
        f"files below {intent.root} are being deleted, and it is not known whether '{'.'.join(operation.key)}' needs one of "
        f"them: {error.message}",
        field="metadata_location",
        remedy="Try again later, or commit through a process that can read the table's files.",
        root=intent.root,
    )
