"""The SPI: everything that a database must be able to do, and nothing more. One compare-and-swap decides.

Semantics (retries, batching, log, index, fences) live above, once. An implementation is thread-safe, keeps no state but its
connections, and answers every call in one of four ways: the result; `StoreUnavailable` (surely not applied, may be tried
again); `OutcomeUnknown` (a write may or may not have been applied); another `HeadwaterError` that trying again won't cure.
"""

from __future__ import annotations

import abc
import enum
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import msgspec

from headwater.persistence.rows import MutableRow, ObjectRow, PointerRow, ScannedRow, Split, Table

NAMES_PER_PAGE = 1_000
ROWS_PER_PAGE = 1_000


class Abilities(msgspec.Struct, frozen=True, kw_only=True):
    """What this backend can do beyond the minimum; callers ask before they rely on it."""

    commits_in_one_transaction: bool
    """`commit` writes objects and pointer atomically: a lost race leaves no object behind."""
    can_delete_realms: bool
    """`delete_realms` removes whole realms in bulk; without it maintenance deletes by scan."""
    shared_between_processes: bool
    """Another process that opens the same URL sees the same rows."""


class DurabilityLevel(enum.Enum):
    DURABLE = "durable"
    """An acknowledged write survives a kill of the server and a power cut."""
    WEAK = "weak"
    """Settings of the live server allow acknowledged writes to be lost."""
    VOLATILE = "volatile"
    """Nothing survives the process, by design (memory)."""


class Durability(msgspec.Struct, frozen=True, kw_only=True):
    """What the live server's settings promise, read on open."""

    level: DurabilityLevel
    settings: dict[str, str]
    """The settings that were read, as the server spells them (synchronous, fsync, commitlog_sync …)."""
    warnings: list[str] = []


ObjectKey: TypeAlias = tuple[int, int]
"""Id and part of an object row."""

MoveToken: TypeAlias = tuple[Any, ...]
"""A backend's position in a realm's moves. Opaque to everything but the backend that returned it, and never stored."""


class Moves(msgspec.Struct, frozen=True):
    """The pointers that may have moved, and the token for the next call."""

    token: MoveToken
    versions: dict[str, int | None] = {}
    """By name, the version of the row; None where the database would have to read it."""


class DeleteResult(msgspec.Struct, frozen=True, kw_only=True):
    deleted: int
    spared: int
    """Rows that were written again after the scan, or were gone already."""


class Backend(abc.ABC):
    """One open database. `realm` is always a realm *instance* (name and creation id), never a bare name."""

    name: str
    abilities: Abilities
    schema_version: int = 1
    """The version that `create_schema` writes and `check_schema` expects."""

    # ── life ────────────────────────────────────────────────────────────────────────────────────────────────

    @abc.abstractmethod
    def create_schema(self) -> None:
        """Create what is missing; safe to repeat and to run from several processes at once."""

    @abc.abstractmethod
    def check_schema(self) -> None:
        """Raise `StoreNotCreated` or `StoreVersionMismatch` unless the schema is the one this version writes."""

    @abc.abstractmethod
    def durability(self) -> Durability: ...

    def data_identity(self) -> str:
        """What changes when another copy of the data takes the place of this one (a backup that is put back, a standby that
        takes over), read from the database; empty where it cannot tell. Not a secret, and compared for equality alone."""
        return ""

    def data_copy(self) -> str:
        """The same, as this process sees it: narrower where the database has more to tell, and never stored. What `of` of the
        writes below is compared with."""
        return self.data_identity()

    @abc.abstractmethod
    def close(self) -> None: ...

    # ── pointers: the compare-and-swap that everything rests on ─────────────────────────────────────────────

    @abc.abstractmethod
    def reserve_pointer(self, realm: str, name: str, row: PointerRow) -> bool:
        """Insert the row if there is none by that name; False if there is. The caller has written the name before."""

    @abc.abstractmethod
    def read_pointer(self, realm: str, name: str, *, decide: bool = False) -> PointerRow | None:
        """The newest acknowledged row. With `decide`, wait out writes in flight: afterwards a CAS on an older version
        that was sent before this call can no longer be applied."""

    def read_pointers(self, realm: str, names: Sequence[str]) -> dict[str, PointerRow]:
        """Many rows at once, each read as strongly as by `read_pointer`; names without a row are left out."""
        found = ((name, self.read_pointer(realm, name)) for name in names)
        return {name: row for name, row in found if row is not None}

    @abc.abstractmethod
    def cas_pointer(self, realm: str, name: str, expected: PointerRow, row: PointerRow) -> bool:
        """Replace the row if its version *and its head* are those of `expected`; False if they are not (which proves nothing
        about an earlier, unanswered attempt). ⚠ A version alone may come again: a store that was restored, or that failed
        over without its last commits, counts on from an older one."""

    @abc.abstractmethod
    def delete_pointer(self, realm: str, name: str, expected: PointerRow) -> bool:
        """Remove the row if its version and head are those of `expected`; only purges do this."""

    @abc.abstractmethod
    def moves_since(self, realm: str, token: MoveToken | None) -> Moves:
        """Pointers whose rows were written since the token was given, at a cost that grows with the moves and not with the
        pointers. Without a token it names none: read the pointers afterwards, then ask with the token that came.
        ⚠ It may name too many, and never misses one: a write that a read would not have seen when the token was given is
        named by the first call after it became visible, however long it took and whatever any clock says."""

    def listen(self, wake: Callable[[], None]) -> Callable[[], None] | None:
        """Have `wake` called, on some thread, soon after pointers moved in any process; returns what stops it. Only a hint:
        it may come late, twice or never. None where the database has nothing like it."""
        return None

    # ── names: written before a pointer is reserved, so they may name what is not there, never the reverse ───

    @abc.abstractmethod
    def add_name(self, realm: str, name: str) -> None:
        """Idempotent."""

    @abc.abstractmethod
    def list_names(self, realm: str, *, prefix: str = "", after: str = "", limit: int = 1_000) -> list[str]:
        """Names in code point order that begin with `prefix` and sort after `after`."""

    def name_pages(self, realm: str, *, prefix: str = "", after: str = "", page: int = NAMES_PER_PAGE) -> Iterator[list[str]]:
        """All names with the prefix, in order."""
        while names := self.list_names(realm, prefix=prefix, after=after, limit=page):
            yield names
            if len(names) < page:
                return
            after = names[-1]

    def all_names(self, realm: str, *, prefix: str = "", after: str = "", page: int = NAMES_PER_PAGE) -> Iterator[str]:
        for names in self.name_pages(realm, prefix=prefix, after=after, page=page):
            yield from names

    def pointer_pages(self, realm: str, *, prefix: str = "", page: int = NAMES_PER_PAGE) -> Iterator[dict[str, PointerRow]]:
        """All pointers that have a row, in order of name."""
        for names in self.name_pages(realm, prefix=prefix, page=page):
            rows = self.read_pointers(realm, names)
            yield {name: rows[name] for name in names if name in rows}

    def all_pointers(self, realm: str, *, prefix: str = "") -> Iterator[tuple[str, PointerRow]]:
        for rows in self.pointer_pages(realm, prefix=prefix):
            yield from rows.items()

    # ── immutable objects ───────────────────────────────────────────────────────────────────────────────────

    @abc.abstractmethod
    def write_objects(self, realm: str, rows: Sequence[ObjectRow]) -> None:
        """Durable when it returns. Writing an id and part again replaces the row and changes its revision. Not atomic
        over several rows. Raises before any effect if a payload is over ROW_BYTES_MAX."""

    @abc.abstractmethod
    def fetch_objects(self, realm: str, ids: Sequence[int]) -> dict[int, list[ObjectRow]]:
        """All rows of the given ids, parts in order; ids that are not there are left out. Sees every write that was
        acknowledged before the call."""

    def remove_objects(self, realm: str, keys: Sequence[ObjectKey]) -> None:
        """Delete rows that nothing will ever refer to, such as those of a lost attempt. Only saves space until the next sweep,
        which a backend may leave it to: that is the default."""
        del realm, keys

    # ── the step that commits ───────────────────────────────────────────────────────────────────────────────

    def commit(
        self, realm: str, name: str, expected: PointerRow, row: PointerRow, objects: Sequence[ObjectRow], *, of: str = ""
    ) -> bool:
        """Write the objects and move the pointer, as `cas_pointer` does. The default takes two durable steps; a backend with
        transactions one. Sending the identical call again is always allowed. `of` is the `data_copy` that the commit was
        planned on: `StoreRestored` if the data are another copy by now, which may lack what the commit refers to."""
        self.write_objects(realm, objects)
        return self.cas_pointer(realm, name, expected, row)

    # ── mutable rows: mutable, each write conditional ────────────────────────────────────────────────────────

    @abc.abstractmethod
    def insert_mutable(self, realm: str, row: MutableRow) -> bool:
        """Insert if there is none of that type and key; False if there is."""

    @abc.abstractmethod
    def read_mutable(self, realm: str, type: str, key: str) -> MutableRow | None:
        """The newest acknowledged row."""

    @abc.abstractmethod
    def update_mutable(self, realm: str, expected: MutableRow, row: MutableRow) -> bool:
        """Replace the row if its version *and its payload* are those of `expected`: like a pointer's, a version alone may come
        again after a restore. `expected` and `row` have the same type and key."""

    @abc.abstractmethod
    def delete_mutable(self, realm: str, expected: MutableRow) -> bool:
        """Remove the row if its version and payload are those of `expected`."""

    @abc.abstractmethod
    def list_mutable(self, realm: str, type: str, *, after: str = "", limit: int = 1_000) -> list[MutableRow]:
        """Rows of one type in code point order of key, after `after`. May return fewer than `limit` only at the end."""

    def all_mutable(self, realm: str, type: str, *, after: str = "", page: int = ROWS_PER_PAGE) -> Iterator[MutableRow]:
        """All rows of one type, in order of key."""
        while True:
            rows = self.list_mutable(realm, type, after=after, limit=page)
            yield from rows
            if len(rows) < page:
                return
            after = rows[-1].key

    # ── maintenance ─────────────────────────────────────────────────────────────────────────────────────────

    @abc.abstractmethod
    def splits(self, table: Table, count: int) -> list[Split]:
        """Cut the table into about `count` disjoint shares that cover all of it, including rows written later."""

    @abc.abstractmethod
    def scan(self, split: Split, *, realm: str | None = None) -> Iterator[ScannedRow]:
        """Every row that exists throughout the scan, exactly once, in bounded memory and without blocking writers."""

    @abc.abstractmethod
    def delete_scanned(self, rows: Sequence[ScannedRow], *, of: str = "") -> DeleteResult:
        """Delete just the scanned revisions; a row that was written again since is spared. `of` is what `data_copy` said
        before the caller made sure that they may go: `StoreRestored` if the data are another copy by now, in which they may
        be needed again. ⚠ Not even the first refusal after a restore is enough: another thread may have had it."""

    @abc.abstractmethod
    def delete_realms(self, realms: Sequence[str], *, of: str = "") -> None:
        """Remove every row of these realm instances; only if `abilities.can_delete_realms`. `of` as in `delete_scanned`."""
