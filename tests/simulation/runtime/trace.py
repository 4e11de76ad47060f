"""What happened, step by step: the last lines are printed when a check fails."""

from __future__ import annotations

from collections import deque

from tests.simulation.runtime import digest

LINES_KEPT = 200_000


class Trace:
    def __init__(self) -> None:
        self.lines: deque[str] = deque(maxlen=LINES_KEPT)
        self._digest = digest.Digest()

    def note(self, step: int, micros: int, process: str, task: str, what: str) -> None:
        line = f"{step:6d} {(micros - 1_767_225_600_000_000) / 1e6:11.3f}s {process + '/' + task:28s} {what}"
        self.lines.append(line)
        self._digest.add(line)

    @property
    def digest(self) -> str:
        """The same for two runs of one seed."""
        return self._digest.text()

    def text(self, lines: int) -> str:
        return "\n".join(list(self.lines)[-lines:])
