"""Records that rest on what was read or written before them: refused if the store was restored in between."""

from __future__ import annotations

from headwater.persistence.commit.draft import Draft, Plan
from headwater.persistence.coordination.restore_watch import RestoreWatch
from headwater.persistence.records.records import RecordsRequest
from headwater.schemas.errors import Conflict


class RestingRecords(RecordsRequest, frozen=True, kw_only=True):
    """⚠ A restore takes away what they rest on, and may bring back the very records that they expect to find."""

    restores: RestoreWatch
    history: str
    """Of the store before the first of what they rest on was read or written."""

    def plan(self, draft: Draft) -> Plan | None:
        if self.restores.history != self.history:
            raise Conflict("the store was restored meanwhile; nothing was changed.", remedy="Send everything again.")
        return super().plan(draft)
