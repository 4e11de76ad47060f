"""The rights that a commit's operations need, and at which keys."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from headwater.producer.commits.operations import CatalogOperation, Rename, Unchanged
from headwater.schemas.change import KeyPath
from headwater.service.auth.rights.rights import Right


def rights_of(operations: Sequence[CatalogOperation]) -> Iterator[tuple[Right, KeyPath]]:
    for operation in operations:
        if isinstance(operation, Unchanged):
            yield Right.FEED_READ, tuple(operation.key)
            continue
        yield Right.COMMIT_WRITE, tuple(operation.key)
        if isinstance(operation, Rename):
            yield Right.COMMIT_WRITE, tuple(operation.from_key)
