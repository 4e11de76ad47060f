"""The states of a shard and the moves that its protocol allows."""

from __future__ import annotations

from enum import StrEnum


class ShardState(StrEnum):
    LEASED = "leased"
    """The lease is won; nothing else is known."""
    FENCED = "fenced"
    """No earlier holder can commit any more."""
    RECOVERED = "recovered"
    """The positions in Kafka are read up to the end that was there, and compared with the log."""
    SENDING = "sending"
    """A transaction is open."""
    IDLE = "idle"
    """All that is known was committed."""
    FAILED = "failed"
    """Something did not answer: the producer is discarded, and all begins again at the lease."""
    STOPPED = "stopped"
    """An alarm is raised; looked at again after a while."""
    LOST = "lost"
    """Another one has the shard, or it was given up: the end of this worker."""


S = ShardState

MOVES: dict[ShardState, frozenset[ShardState]] = {
    S.LEASED: frozenset({S.FENCED, S.FAILED, S.LOST}),
    S.FENCED: frozenset({S.RECOVERED, S.FAILED, S.STOPPED, S.LOST}),
    S.RECOVERED: frozenset({S.SENDING, S.IDLE, S.FAILED, S.LOST}),
    S.SENDING: frozenset({S.SENDING, S.IDLE, S.FAILED, S.STOPPED, S.LOST}),
    S.IDLE: frozenset({S.SENDING, S.FAILED, S.STOPPED, S.LOST}),
    S.FAILED: frozenset({S.LEASED, S.LOST}),
    S.STOPPED: frozenset({S.LEASED, S.LOST}),
    S.LOST: frozenset(),
}
"""Every move that there is. Nothing is sent before RECOVERED, and nothing leads there but FENCED."""


def check_move(before: ShardState, after: ShardState) -> ShardState:
    if after not in MOVES[before]:
        raise RuntimeError(f"a shard went from {before} to {after}")
    return after
