"""Announces removals of history to pins: of a pin and a removal that overlap, at least one sees the other.

⚠ The order is the protocol. A remover (it raises a floor, or takes snapshots from a table) writes a claim, then reads the pins,
and removes only what no pin holds. A reader writes its pin, then reads the claims and what is gone already, and takes its pin
back if they meet. One of the two sees the other, whichever way their steps interleave.

A claim lasts an hour, far longer than any removal. One that was left behind refuses only pins on what was about to go.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from itertools import islice

import msgspec

from headwater.persistence.backend import Backend
from headwater.persistence.clock import MICROS, Clock
from headwater.persistence.coordination.cas_rows import change_row, delete_row
from headwater.persistence.objects.object_types import OBJECT_TYPES, Life, ObjectType
from headwater.persistence.rows import MutableRow
from headwater.schemas.errors import OutcomeUnknown

FLOOR_CLAIM = "floor-claim"
"""Key: the pointer; numbers: the floor that it may rise to."""
SNAPSHOT_CLAIM = "snapshot-claim"
"""Key: the content id of the table; numbers: the snapshots that it may lose."""
CLAIM_SECONDS = 3_600
SKEW_SECONDS = 600
"""⚠ Pinning processes respect a claim this much longer, because their clock may be ahead."""
_LIVE_MAX = 100


class Claim(msgspec.Struct, frozen=True, array_like=True):
    token: str
    until: int
    """Microseconds."""
    numbers: tuple[int, ...]


class _Claims(msgspec.Struct, frozen=True, array_like=True):
    claims: tuple[Claim, ...] = ()


for _type in (FLOOR_CLAIM, SNAPSHOT_CLAIM):
    OBJECT_TYPES.register(ObjectType(_type, _Claims, Life.MUTABLE))


class ClaimedRemovals:
    """The claims of one remover, in one realm instance."""

    def __init__(self, backend: Backend, realm: str, clock: Clock) -> None:
        self._backend, self._realm, self._clock = backend, realm, clock
        self._token = secrets.token_hex(8)

    def claim(self, type: str, key: str, numbers: Sequence[int]) -> None:
        until = self._clock.now_micros() + CLAIM_SECONDS * MICROS
        mine = Claim(self._token, until, tuple(numbers))
        self._change(type, key, lambda others: (*others, mine))

    def release(self, type: str, key: str) -> None:
        """⚠ Withdraw only claims on what was not removed, or on what pinning processes can see to be gone, such as a floor."""
        row = self._backend.read_mutable(self._realm, type, key)
        others = [one for one in _live(row, self._clock.now_micros()) if one.token != self._token]
        if row is not None and not others and delete_row(self._backend, self._realm, row, self._clock):
            return
        self._change(type, key, lambda others: others)

    def _change(self, type: str, key: str, change: Callable[[tuple[Claim, ...]], tuple[Claim, ...]]) -> None:
        def payload(row: MutableRow | None) -> bytes:
            others = tuple(one for one in _live(row, self._clock.now_micros()) if one.token != self._token)
            return msgspec.msgpack.encode(_Claims(change(others)[-_LIVE_MAX:]))

        if not change_row(self._backend, self._realm, type, key, payload, self._clock):
            raise OutcomeUnknown(f"{type} {key} could not be written: other writers kept changing it.", remedy="Try again.")


def claimed(backend: Backend, realm: str, clock: Clock, type: str, key: str) -> frozenset[int]:
    """All numbers that may be being removed."""
    row = backend.read_mutable(realm, type, key)
    return frozenset(number for one in _live(row, clock.now_micros()) for number in one.numbers)


def clean_claims(backend: Backend, realm: str, clock: Clock, rows_max: int = 5_000) -> tuple[int, bool]:
    """Delete rows whose claims are all over: how many, and whether more are due."""
    now = clock.now_micros()
    rows = (row for type in (FLOOR_CLAIM, SNAPSHOT_CLAIM) for row in backend.all_mutable(realm, type))
    over = list(islice((row for row in rows if not _live(row, now)), rows_max))
    return sum(delete_row(backend, realm, row, clock) for row in over), len(over) == rows_max


def _live(row: MutableRow | None, now: int) -> tuple[Claim, ...]:
    found = () if row is None else msgspec.msgpack.decode(row.payload, type=_Claims).claims
    return tuple(one for one in found if one.until + SKEW_SECONDS * MICROS > now)
