"""Which of the sweep's safeguards are on. All are; tests switch one off at a time, to show that without it data are lost."""

from __future__ import annotations

import msgspec


class Safeguards(msgspec.Struct, frozen=True, kw_only=True):
    """Not for use outside of tests: the command has no way to set it."""

    completeness: bool = True
    every_position: bool = True
    grace: bool = True
    fence: bool = True
    follow_base: bool = True
    spare_mutable: bool = True
    one_salt: bool = True
    probe: bool = True
    floors_first: bool = True
    rising_fences: bool = True


ALL_ON = Safeguards()
