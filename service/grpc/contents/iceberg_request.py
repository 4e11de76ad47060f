"""An Iceberg request that remembers what became of its commit, for the MutationMeta of the response."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from headwater.service.http.preconditions import expected_version
from headwater.service.iceberg.call import IcebergCall
from headwater.service.iceberg.operations.lake_branch import BranchOutcome, CommitAuthor, LakeState


class RpcIcebergCall(IcebergCall):
    def __init__(self, *request: Any) -> None:
        super().__init__(*request)
        self.outcome: BranchOutcome | None = None

    @property
    def author(self) -> CommitAuthor:
        """A precondition is one on the branch."""
        return msgspec.structs.replace(super().author, on_done=self._done, expected_head=expected_version(self.scope))

    async def was_done(self) -> bool:
        """An earlier run of this call has committed: what it looked at before need not be there any more."""
        if self.run is None or not self.run.again:
            return False
        return await asyncio.to_thread(self.branch.was_done, self.author)

    def committed_state(self) -> LakeState:
        """⚠ What the commit itself left: others may have moved, dropped or made it anew since, and a call that is answered late
        or again is about what it did."""
        logged = None if self.outcome is None else self.outcome.logged
        return self.branch.state() if logged is None else self.branch.state_at(logged)

    def _done(self, outcome: BranchOutcome) -> None:
        self.outcome = outcome

    @property
    def branch_name(self) -> str:
        """The branch of the catalog that the prefix names."""
        return self.names["prefix"].partition("@")[0]
