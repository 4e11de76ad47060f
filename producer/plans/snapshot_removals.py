"""Takes snapshots from a table only if no plan reads them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from headwater.persistence.coordination.claimed_removals import SNAPSHOT_CLAIM, ClaimedRemovals
from headwater.persistence.store import RealmKernel
from headwater.producer.plans.plan_rows import live_plans
from headwater.schemas.errors import HeadwaterError, OutcomeUnknown, SnapshotPinned


class SnapshotRemoval:
    """Of one commit, which may be tried several times."""

    def __init__(self, kernel: RealmKernel) -> None:
        self._kernel = kernel
        self._claims = ClaimedRemovals(kernel.store.backend, kernel.realm, kernel.store.clock)
        self._claimed: set[str] = set()

    def claim(self, content_id: str, snapshot_ids: Sequence[int]) -> None:
        """Before the commit; `SnapshotPinned` if a plan reads one of them."""
        self._claims.claim(SNAPSHOT_CLAIM, content_id, snapshot_ids)
        self._claimed.add(content_id)
        removed = frozenset(snapshot_ids)
        for plan in live_plans(self._kernel):  # ⚠ after the claim is written
            for one in plan.inputs:
                if one.content_id == content_id and one.snapshot_id in removed:
                    raise SnapshotPinned(
                        f"snapshot {one.snapshot_id} of {'.'.join(one.key)} is read by a plan.",
                        field="snapshot-ids",
                        remedy="Try again when the plan has ended.",
                        plan=plan.id,
                        until=plan.pinned_until,
                    )

    def release(self) -> None:
        """⚠ Only if nothing was committed: else a plan that has read the table before could pin what is gone."""
        for content_id in self._claimed:
            self._claims.release(SNAPSHOT_CLAIM, content_id)


@contextmanager
def snapshot_removal(kernel: RealmKernel) -> Iterator[SnapshotRemoval]:
    """Around a commit that may remove snapshots."""
    removal = SnapshotRemoval(kernel)
    try:
        yield removal
    except OutcomeUnknown:
        raise
    except HeadwaterError:
        removal.release()
        raise
