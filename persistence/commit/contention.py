"""How long a lane steps back after a batch, so that lanes of other processes get a turn.

A process that holds the head commits in one round trip; any other must read it first. Without a pause the holder wins every
race for as long as it has work (seen: of three processes each had to wait until the one before was done). So a lane that has
met others steps back after a few batches, and one that has met none does so now and then, because waiting lanes are invisible.
"""

from __future__ import annotations

from headwater.persistence.clock import MICROS

STEP_BACK_ROUND_TRIPS = 5
"""Long enough for another lane to read the head, plan and commit, wherever in its own waiting it is."""
MET_TURN_ROUND_TRIPS = 4
"""How long a lane continues where others wait: a few batches of one process cost less than one each of several."""
TURN_MIN, TURN_MAX = 4, 80
"""A lane that has met no others continues for this many pauses, doubled each time: stepping back costs 1 % in the long run."""
MET_PAUSES = 40
"""Other processes are expected for this many pauses after the lane last met one."""


class ContentionControl:
    def __init__(self) -> None:
        self._round_trip_micros = 0.0
        self._turn_began = 0
        self._batch_ended = 0
        self._met_at = -(10**18)
        self._turn_pauses = TURN_MIN
        self.stepped_back = False
        """Whether the newest batch ended with a pause, in which others may have moved the head."""

    @property
    def retry_seconds(self) -> float:
        """How long to wait at most after a lost race: short enough to try within another lane's pause."""
        return 2 * self._round_trip_micros / MICROS

    def met_others(self, now: int) -> None:
        self._met_at = now
        self._turn_pauses = TURN_MIN

    def landed(self, began: int, ended: int) -> float:
        """Seconds to step back after a batch that took from `began` to `ended` (microseconds)."""
        took = max(0, ended - began)
        self._round_trip_micros = took if not self._round_trip_micros else 0.8 * self._round_trip_micros + 0.2 * took
        if not 0 <= began - self._batch_ended < self._pause_micros:
            self._turn_began = began  # there was a gap that others could use, or the clock was set
        self._batch_ended = ended
        met = abs(ended - self._met_at) < MET_PAUSES * self._pause_micros
        turn_micros = MET_TURN_ROUND_TRIPS * self._round_trip_micros if met else self._turn_pauses * self._pause_micros
        self.stepped_back = ended - self._turn_began >= turn_micros
        if not self.stepped_back:
            return 0.0
        self._turn_pauses = min(2 * self._turn_pauses, TURN_MAX)
        return self._pause_micros / MICROS

    @property
    def _pause_micros(self) -> float:
        return STEP_BACK_ROUND_TRIPS * self._round_trip_micros
