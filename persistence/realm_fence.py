"""A realm instance enters; the time at or after which a new pointer's objects must be created leaves.

⚠ A pointer that is reserved while a sweep lists names has no fence of its own yet, so its first commit reads the realm's.
"""

from __future__ import annotations

import msgspec

from headwater.persistence.backend import Backend
from headwater.persistence.clock import Clock
from headwater.persistence.rows import RootedRow
from headwater.schemas.errors import OutcomeUnknown

FENCE_TYPE = "realm-fence"
FENCE_KEY = "fence"


def read_realm_fence(backend: Backend, realm: str) -> int:
    """Microseconds; 0 while there has never been a fence."""
    row = backend.read_rooted(realm, FENCE_TYPE, FENCE_KEY)
    return 0 if row is None else int(msgspec.msgpack.decode(row.payload, type=int))


def write_realm_fence(backend: Backend, realm: str, fence: int, clock: Clock) -> None:
    """Set it, whatever it was: the realm's life cycle and sweeps take turns by their own leases."""
    payload = msgspec.msgpack.encode(fence)
    while True:
        row = backend.read_rooted(realm, FENCE_TYPE, FENCE_KEY)
        if row is not None and row.payload == payload:
            return
        try:
            if row is None:
                new = RootedRow(type=FENCE_TYPE, key=FENCE_KEY, created_at=clock.now_micros(), payload=payload)
                backend.insert_rooted(realm, new)
            else:
                moved = msgspec.structs.replace(row, version=row.version + 1, payload=payload)
                backend.update_rooted(realm, row.version, moved)
        except OutcomeUnknown:
            clock.sleep(0.01)
