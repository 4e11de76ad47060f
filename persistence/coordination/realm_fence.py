"""The fence of a realm: the time at or after which a new pointer's objects must be created, and who set it.

⚠ A pointer that is reserved while names are listed has no fence of its own yet, so its first commit reads the realm's.
⚠ Before it fences pointers, a process (closing, reopening, a sweep) takes the realm's fence by CAS. The row's version then says
whose fence is the newest: one who was overtaken finds out before it touches another pointer, however long it had been asleep.
The row lies in `::system::`, so that a realm whose own rows are all purged stays closed to writers that have slept through it.
"""

from __future__ import annotations

import uuid

import msgspec

from headwater.persistence.backend import Backend
from headwater.persistence.clock import Clock
from headwater.persistence.coordination.cas_rows import PATIENT_TRIES_MAX, cas_row
from headwater.persistence.rows import FENCE_CLOSED, SYSTEM_REALM, MutableRow

FENCE_TYPE = "realm-fence"


class _Payload(msgspec.Struct, frozen=True, array_like=True):
    fence: int
    holder: str
    open_max: int


class RealmFence(msgspec.Struct, frozen=True, kw_only=True):
    """A realm's fence as one writer of it left it."""

    realm: str
    fence: int = 0
    """Microseconds; FENCE_CLOSED while the realm takes no commits; 0 while there has never been a fence."""
    holder: str = ""
    open_max: int = 0
    """The latest fence that was not closed: reopening must not fall behind it."""
    version: int = 0
    created_at: int = 0

    @property
    def is_closed(self) -> bool:
        return self.fence == FENCE_CLOSED


def read_realm_fence(backend: Backend, realm: str) -> RealmFence:
    row = backend.read_mutable(SYSTEM_REALM, FENCE_TYPE, realm)
    return RealmFence(realm=realm) if row is None else _fence_of(row)


def list_realm_fences(backend: Backend, limit: int = 1_000) -> list[RealmFence]:
    """At most `limit` fences, including those of realms that are gone."""
    return [_fence_of(row) for row in backend.list_mutable(SYSTEM_REALM, FENCE_TYPE, limit=limit)]


def _fence_of(row: MutableRow) -> RealmFence:
    payload = msgspec.msgpack.decode(row.payload, type=_Payload)
    return RealmFence(
        realm=row.key,
        fence=payload.fence,
        holder=payload.holder,
        open_max=payload.open_max,
        version=row.version,
        created_at=row.created_at,
    )


def next_open_fence(seen: RealmFence, now: int) -> int:
    """⚠ Greater than every earlier one, also where the clock stands behind: "nothing is being removed" is remembered by the
    value of a fence."""
    return max(now, seen.open_max + 1)


def take_realm_fence(
    backend: Backend, seen: RealmFence, fence: int, clock: Clock, *, reopens_after: int = 0
) -> RealmFence | None:
    """Set the fence over the one that was seen; None if another one was faster. A closed one may say behind which time
    (microseconds) it is to be opened again."""
    taken = RealmFence(
        realm=seen.realm,
        fence=fence,
        holder=uuid.uuid4().hex,  # distinguishes our unanswered write from another's
        open_max=max(seen.open_max, reopens_after if fence == FENCE_CLOSED else fence),
        version=seen.version + 1,
        created_at=seen.created_at or clock.now_micros(),
    )
    before = None if seen.version == 0 else _row_of(seen)
    row = _row_of(taken)
    return taken if cas_row(backend, SYSTEM_REALM, before, row, clock, has_token=True, tries_max=PATIENT_TRIES_MAX) else None


def _row_of(fence: RealmFence) -> MutableRow:
    return MutableRow(
        type=FENCE_TYPE,
        key=fence.realm,
        version=fence.version,
        created_at=fence.created_at,
        payload=msgspec.msgpack.encode(_Payload(fence.fence, fence.holder, fence.open_max)),
    )
