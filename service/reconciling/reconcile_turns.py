"""Decides whose connector is next: fair between realms, then between the connectors of a realm. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple


class Turn(NamedTuple):
    realm: str
    connector_id: str


def next_turn(waiting: Sequence[Turn], running: Collection[Turn], served_at: Mapping[Turn, float], slots: int) -> Turn | None:
    """⚠ The realm with the fewest running comes first, and none may hold the last free slot beside its own: sources that hang
    cost their own realm's turns alone."""
    if len(running) >= slots:
        return None
    of_realm: dict[str, int] = {}
    for turn in running:
        of_realm[turn.realm] = of_realm.get(turn.realm, 0) + 1
    per_realm_max = max(1, slots - 1)
    free = [turn for turn in waiting if turn not in running and of_realm.get(turn.realm, 0) < per_realm_max]
    return min(free, key=lambda turn: (of_realm.get(turn.realm, 0), served_at.get(turn, 0.0), turn), default=None)
