"""Computes how many shards this process takes; every process computes the same split. Pure."""

from __future__ import annotations

from collections.abc import Sequence


def fair_share(shards: int, members: Sequence[str], me: str) -> int:
    """As evenly as possible; the remainder goes to the first in order of id."""
    everyone = sorted({*members, me})
    even, left_over = divmod(shards, len(everyone))
    return even + (everyone.index(me) < left_over)
