"""A request under `/feed/v1/{realm}`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

from headwater.producer.commits.operations import CatalogOperation, Rename, Unchanged
from headwater.producer.commits.operations_json import operations_from_json
from headwater.schemas.change import KeyPath
from headwater.schemas.http.feed_json import CommitBody
from headwater.service.auth.feed_view import Viewer
from headwater.service.auth.rights.rights import Right, Securable
from headwater.service.gate.request import Request

IN_SYSTEM = ("pointers", "changes", "stream", "snapshot", "commits/{id}")
"""What `::system::` serves: its log is read, by those who may; nothing is committed to it or kept in it for readers."""


class FeedCall(Request):
    @property
    def serves_system(self) -> bool:  # type: ignore[override]
        return self.route is None or self.route.path.partition("{realm}/")[2] in IN_SYSTEM

    @property
    def serves_system_feed(self) -> bool:  # type: ignore[override]
        return self.serves_system

    @property
    def refuses_unknown_parameters(self) -> bool:  # type: ignore[override]
        """The hot routes parse their queries by themselves, and remember them."""
        return self.route is None or not self.route.is_long

    @property
    def viewer(self) -> Viewer:
        """⚠ A new one each time: its first look needs no second proof of the caller, later ones do."""
        return Viewer(self.access, self.caller, self.feed)

    @cached_property
    def operations(self) -> list[CatalogOperation]:
        """Operations of a commit, parsed once for both the rights check and the commit."""
        return operations_from_json(self.read(CommitBody).operations)


async def require_commit(call: FeedCall) -> None:
    """One right over the whole catalog answers for all keys at once."""
    caller, catalog = call.caller, call.read(CommitBody).catalog
    if caller.development or await call.access.allows(caller, Right.CATALOG_WRITE, Securable(catalog)):
        return
    for right, key in sorted(set(_rights_of(call.operations)) or {(Right.COMMIT_WRITE, ())}):
        await call.access.require(caller, right, Securable(catalog, key))


def _rights_of(operations: Sequence[CatalogOperation]) -> Iterator[tuple[Right, KeyPath]]:
    for operation in operations:
        if isinstance(operation, Unchanged):
            yield Right.FEED_READ, tuple(operation.key)
            continue
        yield Right.COMMIT_WRITE, tuple(operation.key)
        if isinstance(operation, Rename):
            yield Right.COMMIT_WRITE, tuple(operation.from_key)
