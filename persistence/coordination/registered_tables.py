"""Tables that were registered by their metadata: their files were written for another catalog, which may still need them.

A mark outlives the table, so that it still counts when a branch restores the table.
"""

from __future__ import annotations

from hashlib import sha256

import msgspec

from headwater.persistence.backend import Backend
from headwater.persistence.clock import Clock
from headwater.persistence.coordination.cas_rows import change_row
from headwater.persistence.objects.object_types import OBJECT_TYPES, Life, ObjectType
from headwater.schemas.errors import OutcomeUnknown

REGISTERED_TYPE = "registered-table"


class RegisteredTable(msgspec.Struct, frozen=True, array_like=True):
    """The row's payload. Append new fields, never move one."""

    content_id: str
    location: str
    """Of its metadata when it was registered."""


OBJECT_TYPES.register(ObjectType(REGISTERED_TYPE, RegisteredTable, Life.MUTABLE))


class RegisteredTables:
    """Of one realm instance."""

    def __init__(self, backend: Backend, realm: str, clock: Clock) -> None:
        self._backend = backend
        self._realm = realm
        self._clock = clock

    def add(self, content_id: str, location: str) -> None:
        """⚠ Before the commit that registers it."""
        payload = msgspec.msgpack.encode(RegisteredTable(content_id, location))
        if not change_row(self._backend, self._realm, REGISTERED_TYPE, _key(content_id), lambda _: payload, self._clock):
            raise OutcomeUnknown(f"{location[:200]} could not be registered: others kept writing.", remedy="Try again.")

    def has(self, content_id: str) -> bool:
        return self._backend.read_mutable(self._realm, REGISTERED_TYPE, _key(content_id)) is not None


def _key(content_id: str) -> str:
    return sha256(content_id.encode()).hexdigest()
