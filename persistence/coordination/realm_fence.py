"""The fence of a realm: the time at or after which a new pointer's objects must be created, and who set it.

⚠ A pointer that is reserved while names are listed has no fence of its own yet, so its first commit reads the realm's.
⚠ Whoever fences pointers (closing, reopening, a sweep) first takes the realm's fence by CAS. The row's version then says whose
fence is the newest: one who was overtaken finds out before it touches another pointer, however long it had been asleep.
The row lies in `::system::`, so that a realm whose own rows are all purged stays closed to writers that have slept through it.
"""

from __future__ import annotations

import uuid

import msgspec

from headwater.persistence.backend import Backend
from headwater.persistence.clock import Clock
from headwater.persistence.rows import FENCE_CLOSED, SYSTEM_REALM, MutableRow
from headwater.schemas.errors import OutcomeUnknown

FENCE_TYPE = "realm-fence"

_ASKED_MAX = 20
_ASK_SECONDS = 0.05


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
    """The first so many, of realms that are gone too."""
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


def take_realm_fence(
    backend: Backend, seen: RealmFence, fence: int, clock: Clock, *, reopens_after: int = 0
) -> RealmFence | None:
    """Set the fence over the one that was seen; None if another one was faster. A closed one may say behind which time
    (microseconds) it is to be opened again."""
    taken = RealmFence(
        realm=seen.realm,
        fence=fence,
        holder=uuid.uuid4().hex,  # so that an unanswered write can be told from another's
        open_max=max(seen.open_max, reopens_after if fence == FENCE_CLOSED else fence),
        version=seen.version + 1,
        created_at=seen.created_at or clock.now_micros(),
    )
    unclear: OutcomeUnknown | None = None
    for _ in range(_ASKED_MAX):
        try:
            if _write(backend, seen, taken):
                return taken
        except OutcomeUnknown as unknown:
            unclear = unknown
            clock.sleep(_ASK_SECONDS)
        now = read_realm_fence(backend, seen.realm)
        if now == taken:
            return taken
        if now != seen:
            return None
    raise OutcomeUnknown(f"the fence of {seen.realm!r} was neither seen written nor refused.", remedy="Try again.") from unclear


def _write(backend: Backend, seen: RealmFence, taken: RealmFence) -> bool:
    if taken.version == 1:
        return backend.insert_mutable(SYSTEM_REALM, _row_of(taken))
    return backend.update_mutable(SYSTEM_REALM, _row_of(seen), _row_of(taken))


def _row_of(fence: RealmFence) -> MutableRow:
    return MutableRow(
        type=FENCE_TYPE,
        key=fence.realm,
        version=fence.version,
        created_at=fence.created_at,
        payload=msgspec.msgpack.encode(_Payload(fence.fence, fence.holder, fence.open_max)),
    )
