"""Compares layouts of the objects table in SQLite: bytes on disk and rows per second.

`python -m bench.sqlite_layout`. The figures in docs/backends-sql.md come from here: run it again before changing the layout.
"""

from __future__ import annotations

import random
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

REALM = "default~7f3a9c2e11d4b801"
REALM_NUMBER = 7
ROWS = 20_000
BATCH = 32
WAL_BYTES_BEFORE_CHECKPOINT = 8 * 1024 * 1024

UPSERT = """INSERT INTO objects VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (realm, id, part) DO UPDATE SET
 type = excluded.type, parts = excluded.parts, created_at = excluded.created_at, payload = excluded.payload,
 revision = max(objects.revision + 1, excluded.revision)"""
MOVE = "UPDATE pointers SET version = version + 1, moved_at = ? WHERE realm = ? AND name = ?"


class Layout(NamedTuple):
    without_rowid: bool
    realm_is_number: bool
    page_bytes: int

    @property
    def title(self) -> str:
        kind = "without rowid" if self.without_rowid else "rowid + unique index"
        return f"{kind}, realm as {'number' if self.realm_is_number else 'text'}, {self.page_bytes} byte pages"


Row = tuple[int, int, str, int, int, int, bytes]


def sample_rows() -> list[Row]:
    """Ids in order of time; one row of a hundred has 20 to 60 kB, the others about 1.5 kB."""
    chance = random.Random(1)
    rows: list[Row] = []
    id = 10**17
    for n in range(ROWS):
        size = chance.randint(20_000, 60_000) if chance.random() < 0.01 else chance.randint(800, 2_200)
        id += chance.randint(1, 5_000) * 4_096
        rows.append((id, 0, "entry", 1, 1_763_300_000_000_000 + n, 1_763_300_000_000_000 + n, chance.randbytes(size)))
    return rows


@contextmanager
def opened(layout: Layout) -> Iterator[sqlite3.Connection]:
    folder = tempfile.mkdtemp(prefix="headwater-bench-")
    try:
        with closing(sqlite3.connect(f"{folder}/bench.db", isolation_level=None)) as connection:
            for pragma in (
                f"page_size = {layout.page_bytes}",
                "journal_mode = WAL",
                "synchronous = FULL",
                f"wal_autocheckpoint = {WAL_BYTES_BEFORE_CHECKPOINT // layout.page_bytes}",
            ):
                connection.execute(f"PRAGMA {pragma}")
            realm = "INTEGER" if layout.realm_is_number else "TEXT"
            connection.execute(
                f"""CREATE TABLE objects (realm {realm} NOT NULL, id INTEGER NOT NULL, part INTEGER NOT NULL,
                type TEXT NOT NULL,
                parts INTEGER NOT NULL, created_at INTEGER NOT NULL, revision INTEGER NOT NULL, payload BLOB NOT NULL,
                PRIMARY KEY (realm, id, part)){" WITHOUT ROWID" if layout.without_rowid else ""}"""
            )
            connection.execute("CREATE TABLE pointers (realm, name, version, moved_at, PRIMARY KEY (realm, name))")
            connection.execute("CREATE INDEX moved ON pointers (realm, moved_at)")
            connection.execute("INSERT INTO pointers VALUES (?, 'main', 1, 0)", (REALM,))
            yield connection
    finally:
        shutil.rmtree(folder)


def measure(layout: Layout, rows: list[Row]) -> str:
    realm = REALM_NUMBER if layout.realm_is_number else REALM
    with opened(layout) as connection:
        started = time.perf_counter()
        for first in range(0, len(rows), BATCH):
            connection.execute("BEGIN IMMEDIATE")
            connection.execute(MOVE, (first, REALM, "main"))
            connection.executemany(UPSERT, [(realm, *row) for row in rows[first : first + BATCH]])
            connection.execute("COMMIT")
        written = len(rows) / (time.perf_counter() - started)
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        path = Path(connection.execute("PRAGMA database_list").fetchone()[2])
        ratio = path.stat().st_size / sum(len(row[-1]) for row in rows)
        read = _read_rate(connection, realm, [row[0] for row in rows])
        scanned = _scan_rate(connection, realm)
    return f"{layout.title:58} {ratio:5.2f}× payload {written:9,.0f} {read:9,.0f} {scanned:9,.0f}"


def _read_rate(connection: sqlite3.Connection, realm: str | int, ids: list[int]) -> float:
    random.Random(2).shuffle(ids)
    query = f"SELECT * FROM objects WHERE realm = ? AND id IN ({', '.join('?' * 64)}) ORDER BY id, part"
    started = time.perf_counter()
    found = 0
    for first in range(0, len(ids) - 63, 64):
        found += len(connection.execute(query, (realm, *ids[first : first + 64])).fetchall())
    return found / (time.perf_counter() - started)


def _scan_rate(connection: sqlite3.Connection, realm: str | int) -> float:
    query = """SELECT realm, id, part, type, created_at, revision FROM objects WHERE (realm, id, part) > (?, ?, ?)
     ORDER BY realm, id, part LIMIT 1000"""
    after: tuple[object, ...] = (realm, 0, 0)
    scanned = 0
    started = time.perf_counter()
    while page := connection.execute(query, after).fetchall():
        scanned += len(page)
        after = page[-1][:3]
    return scanned / (time.perf_counter() - started)


def main() -> None:
    rows = sample_rows()
    print(f"{'layout':58} {'bytes':>13} {'written/s':>9} {'read/s':>9} {'scanned/s':>9}")
    for page_bytes in (4_096, 8_192, 16_384):
        for without_rowid in (False, True):
            for realm_is_number in (False, True):
                print(measure(Layout(without_rowid, realm_is_number, page_bytes), rows), flush=True)


if __name__ == "__main__":
    main()
