"""Nothing enters; a number leaves that no other write of a mutable row has: what a scan's delete asks for, atomically."""

from __future__ import annotations

import secrets


def new_stamp() -> int:
    return secrets.randbits(63)
