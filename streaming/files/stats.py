"""What a purge did. Only what the storage confirmed counts as purged."""

from __future__ import annotations

import threading

import msgspec

FAILURES_KEPT = 100


class Failure(msgspec.Struct, frozen=True):
    location: str
    reason: str


class PurgeStats(msgspec.Struct, kw_only=True):
    requested: int = 0
    """Distinct files."""
    purged: int = 0
    missing: int = 0
    """Already gone: counts as success."""
    failed: int = 0
    """Still there, or not known to be gone: left for the next run."""
    spared: int = 0
    """Not touched: a filter left them out, or deleting them would hide files that could not be read."""
    bytes: int = 0
    """Total size of the purged files whose size was known."""
    batches: int = 0
    retries: int = 0
    seconds: float = 0.0
    failures: list[Failure] = []
    """The first hundred failures."""


class StatsCollector:
    """Adds up counts from several threads."""

    def __init__(self) -> None:
        self.stats = PurgeStats()
        self._lock = threading.Lock()

    def add(self, **counts: int) -> None:
        with self._lock:
            for name, number in counts.items():
                setattr(self.stats, name, getattr(self.stats, name) + number)

    def fail(self, location: str, reason: str) -> None:
        with self._lock:
            self.stats.failed += 1
            if len(self.stats.failures) < FAILURES_KEPT:
                self.stats.failures.append(Failure(location[:1_000], reason[:500]))
