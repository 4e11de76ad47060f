"""Asks a store which pointers of a realm have moved, and reads those rows: one question, however many pointers there are.

Call `start`, then read whatever is to be known; from then on `read_moved` misses no move that became visible afterwards.
"""

from __future__ import annotations

from collections.abc import Callable

from headwater.persistence.backend import MoveToken
from headwater.persistence.rows import PointerRow
from headwater.persistence.store import RealmKernel


class MovedPointers:
    """For one thread at a time."""

    def __init__(self, kernel: RealmKernel) -> None:
        self._backend = kernel.store.backend
        self._realm = kernel.realm
        self._token: MoveToken | None = None

    def start(self) -> None:
        self._token = self._backend.moves_since(self._realm, None).token

    def read_moved(self, wanted: Callable[[str, int | None], bool]) -> dict[str, PointerRow]:
        """Rows that were written since the last call. `wanted` gets a name and the row's version, None where it is not known.
        ⚠ If the rows cannot be read, the next call names them again."""
        moves = self._backend.moves_since(self._realm, self._token)
        names = [name for name, version in moves.versions.items() if wanted(name, version)]
        rows = self._backend.read_pointers(self._realm, names) if names else {}
        self._token = moves.token
        return rows
