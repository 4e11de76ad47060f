"""The rights that a commit's operations need, and at which keys."""

from __future__ import annotations

from collections.abc import Iterator

from headwater.producer.commits.operations import Rename, Unchanged
from headwater.producer.commits.operations_json import operations_from_json
from headwater.schemas.change import KeyPath
from headwater.schemas.http.feed_json import CommitBody
from headwater.service.auth.access import Access
from headwater.service.auth.caller import Caller
from headwater.service.auth.rights.rights import Right, Securable


def needed(body: CommitBody) -> Iterator[tuple[Right, KeyPath]]:
    for operation in operations_from_json(body.operations):
        if isinstance(operation, Unchanged):
            yield Right.FEED_READ, tuple(operation.key)
            continue
        yield Right.COMMIT_WRITE, tuple(operation.key)
        if isinstance(operation, Rename):
            yield Right.COMMIT_WRITE, tuple(operation.from_key)


async def require_commit(access: Access, caller: Caller, body: CommitBody) -> None:
    """One right over the whole catalog answers for all keys at once."""
    if caller.development or await access.allows(caller, Right.CATALOG_WRITE, Securable(body.catalog)):
        return
    pairs = set(needed(body)) or {(Right.COMMIT_WRITE, ())}
    for right, key in sorted(pairs):
        await access.require(caller, right, Securable(body.catalog, key))
