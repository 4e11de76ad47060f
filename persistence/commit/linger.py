"""How long a lane waits after a batch, so that its callers can join the next one.

Callers that commit one after the other come back right after they were answered. A lane that continues at once finds half of
them: two groups then take turns, and each CAS serves half of what it could. So a lane that has just served several callers
waits for them, for a part of the time that the store takes anyway, and no longer than they keep coming. A single caller is
never waited for. Nor does a lane wait if its own work takes longer than the store: its callers come back while the store works,
and a wait would leave the interpreter idle.
"""

from __future__ import annotations

from collections.abc import Callable

from headwater.persistence.clock import MICROS, Clock

SHARE_MAX = 0.5
"""How long to wait at most, as a share of the time that the last batch took in the store."""
OWN_WORK_MAX = 1
"""As a multiple of the store's time: a lane that works longer than that on a batch continues at once."""
LOOKS = 8
"""How often to check for new callers within that time. The wait ends at the first check that finds none."""


class Linger:
    """The waiting of one lane; used only by the thread that runs it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._expected = 0
        self._micros = 0

    def landed(self, callers: int, own_micros: int, store_micros: int) -> None:
        """A batch landed: the number of callers, answered or waiting, and the time that the lane and then the store took."""
        self._expected = callers if own_micros <= OWN_WORK_MAX * store_micros else 0
        self._micros = max(0, store_micros)  # a clock that was set back must not make the wait negative

    def rest(self) -> None:
        self._expected = 0

    def wait(self, waiting: Callable[[], int]) -> None:
        """Wait until all callers are back, no more arrive, or the time is over."""
        if self._expected < 2:
            return
        there = -1
        for _ in range(LOOKS):
            there, before = waiting(), there
            if there >= self._expected or there == before:
                return
            self._clock.sleep(self._micros * SHARE_MAX / LOOKS / MICROS)
