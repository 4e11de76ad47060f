"""A request id enters; the entry that was committed under it leaves, if the pointer's log has one."""

from __future__ import annotations

import msgspec

from headwater.persistence.commit.draft import Draft, Plan
from headwater.persistence.log.log_entry import LogRecord
from headwater.persistence.store import RealmKernel


class _Lookup(msgspec.Struct, frozen=True):
    """Plans nothing: the answer tells whether a request of that id is in the log."""

    request_id: str
    request_id_is_callers: bool = True

    def plan(self, draft: Draft) -> Plan | None:
        return None


def find_request(kernel: RealmKernel, pointer: str, request_id: str | None) -> LogRecord | None:
    """⚠ As far back as a lane looks for ids that callers bring along: the same that keeps a commit from landing twice."""
    if request_id is None:
        return None
    answer = kernel.committer.commit(pointer, _Lookup(request_id))
    return answer.logged if answer.replayed else None
