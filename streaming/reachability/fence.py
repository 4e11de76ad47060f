"""Fences a realm instance: returns its heads and floors, and nothing prepared earlier can land afterwards.

⚠ The order is the protocol: the realm's fence → floors of all names → names again, with the fence written by CAS into each row,
which yields the heads. A pointer that is reserved after the second listing reads the realm's fence before its first commit, so
its objects are newer than the fence; and whatever it was branched from was at or above the floors that were read before.

A closed realm (INACTIVE) is fenced by the same steps and stays closed: its rows are closed again, and the realm's fence keeps
T, after which the realm will be opened. So whatever is written later is newer than T too, by any writer's clock.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from headwater.persistence.backend import Backend
from headwater.persistence.clock import Clock
from headwater.persistence.coordination.pointer_fences import fence_pointers
from headwater.persistence.coordination.realm_fence import RealmFence, next_open_fence, read_realm_fence, take_realm_fence
from headwater.persistence.rows import FENCE_CLOSED, PointerRow
from headwater.schemas.errors import RealmNotActive, RealmStateConflict
from headwater.streaming.reachability.retained_identifiers import Span
from headwater.streaming.reachability.safeguards import ALL_ON, Safeguards


class FencedRealm(msgspec.Struct, frozen=True, kw_only=True):
    realm: str
    time: int
    """T, in microseconds: unreachable objects created before T minus the grace may go."""
    spans: dict[str, Span]


def fence_realm(backend: Backend, realm: str, clock: Clock, safeguards: Safeguards = ALL_ON) -> FencedRealm:
    """`RealmNotActive` for a realm that is just being opened or closed: that is not disturbed."""
    seen = read_realm_fence(backend, realm)
    now = clock.now_micros()
    if not safeguards.fence:
        return _unfenced(backend, realm, now)
    if seen.is_closed:
        _check_all_closed(backend, realm)
    rising = next_open_fence(seen, now) if safeguards.rising_fences else max(now, seen.open_max)
    fence = FENCE_CLOSED if seen.is_closed else rising
    held = take_realm_fence(backend, seen, fence, clock, reopens_after=now)
    if held is None:
        raise RealmStateConflict(
            f"another process is moving {realm!r}.", field="realm", remedy="Look at its status, then try again.", realm=realm
        )
    floors = dict(_floors(backend, realm))
    rows = _fence_all(backend, held, clock)
    if not safeguards.floors_first:
        floors = dict(_floors(backend, realm))
    spans = {
        name: Span(floor=min(floors.get(name, 1), row.seq), head=row.head, seq=row.seq)
        for name, row in rows.items()
        if row.head  # a pointer that is only reserved has nothing yet
    }
    return FencedRealm(realm=realm, time=min(now, held.fence), spans=spans)


def _check_all_closed(backend: Backend, realm: str) -> None:
    if any(row.head and row.fence != FENCE_CLOSED for _, row in backend.all_pointers(realm)):
        raise RealmNotActive(
            f"{realm!r} is being opened or closed.", field="realm", remedy="Have it swept when that is done.", realm=realm
        )


def _fence_all(backend: Backend, held: RealmFence, clock: Clock) -> dict[str, PointerRow]:
    rows: dict[str, PointerRow] = {}
    fence_pointers(backend, held, clock, rows.__setitem__)
    return rows


def _floors(backend: Backend, realm: str) -> Iterator[tuple[str, int]]:
    for name, row in backend.all_pointers(realm):
        yield name, row.floor


def _unfenced(backend: Backend, realm: str, now: int) -> FencedRealm:
    """What a sweep without the protocol would see; only tests use it."""
    rows = dict(backend.all_pointers(realm))
    spans = {name: Span(floor=row.floor, head=row.head, seq=row.seq) for name, row in rows.items() if row.head}
    return FencedRealm(realm=realm, time=now, spans=spans)
