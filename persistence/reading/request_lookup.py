"""Finds the entry that was committed under a request id, if the pointer's log has one."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from headwater.persistence.commit.draft import Draft, Plan
from headwater.persistence.log.committed_requests import RequestKey
from headwater.persistence.log.log_entry import LogRecord
from headwater.persistence.store import RealmKernel
from headwater.schemas.change import Kind
from headwater.schemas.errors import CursorExpired


class _Lookup(msgspec.Struct, frozen=True):
    """Plans nothing: the outcome says whether a request of that id was committed."""

    kind: ClassVar[Kind] = Kind.COMMIT
    keys_to_read: ClassVar[tuple[bytes, ...]] = ()

    request_id: str
    fingerprint: bytes
    request_id_is_callers: bool = True

    def plan(self, draft: Draft) -> Plan | None:
        return None


def find_request(kernel: RealmKernel, pointer: str, request: str | RequestKey | None) -> LogRecord | None:
    """⚠ By the same look that keeps a commit from landing twice. `IdempotencyKeyReused` if it was another request."""
    if request is None:
        return None
    key = request if isinstance(request, RequestKey) else RequestKey(request)
    outcome = kernel.committer.commit(pointer, _Lookup(key.id, key.fingerprint))
    if outcome.replayed and outcome.logged is None:
        raise CursorExpired(
            f"the request was done as seq {outcome.head_seq} of {pointer!r}, and its entry has expired since.",
            field="request_id",
            remedy="Read the state: what the request asked for was done.",
            seq=outcome.head_seq,
        )
    return outcome.logged if outcome.replayed else None
