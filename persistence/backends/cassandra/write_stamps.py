"""A number that no other write of a mutable row has: the condition of a scan's delete."""

from __future__ import annotations

import secrets


def new_stamp() -> int:
    return secrets.randbits(63)
