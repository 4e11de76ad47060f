"""An Iceberg request that remembers what became of its commit, for the MutationMeta of the response."""

from __future__ import annotations

from typing import Any

import msgspec

from headwater.service.http.preconditions import expected_version
from headwater.service.iceberg.call import IcebergCall
from headwater.service.iceberg.operations.lake_branch import BranchOutcome, CommitAuthor


class RpcIcebergCall(IcebergCall):
    def __init__(self, *request: Any) -> None:
        super().__init__(*request)
        self.outcome: BranchOutcome | None = None

    @property
    def author(self) -> CommitAuthor:
        """A precondition is one on the branch."""
        return msgspec.structs.replace(super().author, on_done=self._done, expected_head=expected_version(self.scope))

    def _done(self, outcome: BranchOutcome) -> None:
        self.outcome = outcome

    @property
    def branch_name(self) -> str:
        """Of the catalog that the prefix names."""
        return self.names["prefix"].partition("@")[0]
