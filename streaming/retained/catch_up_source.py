"""Brings a realm's streamed set up to its fenced heads, and returns what must stay.

While writers continue, a set that was up to date before the fence is behind it afterwards. ⚠ It may end beyond the heads: what
was released there still counts as live at the heads, and what was added there is newer than the fence.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from headwater.schemas.errors import RetainedIncomplete
from headwater.streaming.reachability.fence import FencedRealm
from headwater.streaming.retained.retained_sources import Retained, RetainedSource, require_complete

TRIES_MAX = 10
PAUSE_SECONDS = 0.5
"""Seconds between two tries: a topic is only as far as its publisher."""


class CatchUpSource:
    def __init__(
        self,
        streamed: RetainedSource,
        catch_up: Callable[[str], object],
        *,
        tries_max: int = TRIES_MAX,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """`catch_up` is given a realm instance and brings its set up to what the log or the topic holds."""
        self._streamed = streamed
        self._catch_up = catch_up
        self._tries_max = tries_max
        self._sleep = sleep

    def retained(self, fenced: FencedRealm) -> Retained:
        """`RetainedIncomplete` if the set stays behind: then nothing of the realm is deleted."""
        for attempt in range(1, self._tries_max + 1):
            self._catch_up(fenced.realm)
            found = self._streamed.retained(fenced)
            try:
                require_complete(fenced.spans, found.positions)
                return found
            except RetainedIncomplete:
                found.ids.release()
                if attempt == self._tries_max:
                    raise
            self._sleep(PAUSE_SECONDS)
        raise AssertionError("unreachable")
