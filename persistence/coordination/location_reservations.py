"""Keeps places for tables that are being staged: engines write their files before the commit that names them.

A reservation lasts seven days from the last time that the table was staged. What lies at a reserved place is not deleted as
unused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import sha256

import msgspec

from headwater.persistence.backend import Backend
from headwater.persistence.clock import MICROS, Clock
from headwater.persistence.coordination.cas_rows import change_row, delete_row
from headwater.persistence.objects.object_types import OBJECT_TYPES, Life, ObjectType
from headwater.persistence.rows import SYSTEM_REALM, MutableRow
from headwater.schemas.errors import OutcomeUnknown

RESERVATION_TYPE = "staged-location"
RESERVED_SECONDS = 7 * 24 * 3_600
SKEW_SECONDS = 25 * 3_600
"""⚠ Reservations are respected this much longer: the clock of the process that reserved may be a day behind."""


class LocationReservation(msgspec.Struct, frozen=True, array_like=True):
    """The row's payload. Append new fields, never move one."""

    realm: str
    """The instance."""
    location: str
    until: int
    """Microseconds."""


OBJECT_TYPES.register(ObjectType(RESERVATION_TYPE, LocationReservation, Life.MUTABLE))


class LocationReservations:
    def __init__(self, backend: Backend, clock: Clock) -> None:
        self._backend = backend
        self._clock = clock

    def reserve(self, realm: str, locations: Iterable[str]) -> None:
        """Reserve the location, or renew the reservation. Files may be written there once this returns."""
        until = self._clock.now_micros() + RESERVED_SECONDS * MICROS
        for location in locations:
            payload = msgspec.msgpack.encode(LocationReservation(realm, location, until))
            key = sha256(f"{realm}\0{location}".encode("utf-8", "surrogatepass")).hexdigest()
            self._put(key, payload, location)

    def _put(self, key: str, payload: bytes, location: str) -> None:
        if not change_row(self._backend, SYSTEM_REALM, RESERVATION_TYPE, key, lambda _: payload, self._clock):
            raise OutcomeUnknown(f"{location[:200]} could not be reserved: others kept writing.", remedy="Try again.")

    def all(self) -> Iterator[LocationReservation]:
        """Those that may still be in use."""
        for row in self._backend.all_mutable(SYSTEM_REALM, RESERVATION_TYPE):
            reservation = _reservation_of(row)
            if not self._is_over(reservation):
                yield reservation

    def drop_old(self) -> None:
        for row in list(self._backend.all_mutable(SYSTEM_REALM, RESERVATION_TYPE)):
            if self._is_over(_reservation_of(row)):
                delete_row(self._backend, SYSTEM_REALM, row, self._clock)

    def _is_over(self, reservation: LocationReservation) -> bool:
        return reservation.until + SKEW_SECONDS * MICROS < self._clock.now_micros()


def _reservation_of(row: MutableRow) -> LocationReservation:
    return msgspec.msgpack.decode(row.payload, type=LocationReservation)
