"""Scans in parallel splits: each row that is there throughout exactly once, while writers continue."""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Callable
from functools import partial

import pytest

from headwater.persistence.backend import Backend
from headwater.persistence.backends import open_backend
from headwater.persistence.backends.memory import open_memory
from headwater.persistence.ids.id_generator import IdGenerator
from headwater.persistence.ids.node_leases import NodeLeases
from headwater.persistence.rows import ObjectRow, ScannedRow, Split, Table
from tests.support.fixtures.contract_rows import an_object, in_threads, keys_of, mutable, patiently, pointer, scan_all
from tests.support.fixtures.contract_stores import Scale


def fill(backend: Backend, realm: str) -> None:
    """A few rows in each table."""
    backend.write_objects(realm, [an_object(1), an_object(2, part=0, parts=2), an_object(2, part=1, parts=2, type="note")])
    for name in ("main", "ärger"):
        backend.add_name(realm, name)
        backend.reserve_pointer(realm, name, pointer())
    backend.insert_mutable(realm, mutable("k"))
    backend.insert_mutable(realm, mutable("k", type="run"))


EXPECTED = {
    Table.OBJECTS: [("note", "", 1, 0), ("note", "", 2, 0), ("note", "", 2, 1)],
    Table.POINTERS: [("", "main", 0, 0), ("", "ärger", 0, 0)],
    Table.MUTABLE: [("lease", "k", 0, 0), ("run", "k", 0, 0)],
    Table.NAMES: [("", "main", 0, 0), ("", "ärger", 0, 0)],
}


@pytest.mark.parametrize("table", Table)
def test_a_scan_returns_the_kind_of_each_row(backend: Backend, realm: str, other_realm: str, table: Table) -> None:
    fill(backend, realm)
    fill(backend, other_realm)
    rows = scan_all(backend, table, realm)
    assert keys_of(rows) == [(realm, *key) for key in EXPECTED[table]]
    assert {row.table for row in rows} == {table}
    created = {row.created_at for row in rows}
    match table:
        case Table.OBJECTS:
            assert created == {an_object(1).created_at, an_object(2).created_at}
        case Table.POINTERS:
            assert created == {pointer().created_at}
        case Table.MUTABLE:
            assert created == {mutable("k").created_at}
        case Table.NAMES:
            assert all(isinstance(at, int) for at in created)


@pytest.mark.parametrize("table", Table)
def test_without_a_realm_a_scan_sees_them_all(backend: Backend, realm: str, other_realm: str, table: Table) -> None:
    fill(backend, realm)
    fill(backend, other_realm)
    both = [row for row in scan_all(backend, table, None) if row.realm in (realm, other_realm)]
    assert keys_of(both) == sorted((one, *key) for one in (realm, other_realm) for key in EXPECTED[table])


@pytest.mark.parametrize("table", Table)
@pytest.mark.parametrize("count", [1, 4, 13])
def test_splits_cover_the_table_and_also_rows_written_later(backend: Backend, realm: str, table: Table, count: int) -> None:
    splits = backend.splits(table, count)
    fill(backend, realm)
    rows = [row for split in splits for row in backend.scan(split, realm=realm)]
    assert keys_of(rows) == [(realm, *key) for key in EXPECTED[table]], "each exactly once"


def test_about_as_many_splits_as_requested(backend: Backend) -> None:
    for table in Table:
        for count in (1, 4, 32):
            assert count / 2 <= len(backend.splits(table, count)) <= count * 2


def snowflakes(count: int) -> list[int]:
    with IdGenerator(NodeLeases(open_memory("memory://"))) as ids:
        return ids.take(count)


def test_four_splits_are_all_really_used(new_store: Callable[[], str], realm: str, scale: Scale) -> None:
    """Ids made in one burst differ in their lowest bits only; the shares must be even all the same."""
    backend = open_backend(new_store())
    backend.create_schema()
    ids = snowflakes(scale.objects)
    backend.write_objects(realm, [an_object(one, b"") for one in ids])
    shares = [[row.id for row in backend.scan(split)] for split in backend.splits(Table.OBJECTS, 4)]
    backend.close()
    assert sorted(itertools.chain(*shares)) == sorted(ids)
    used = [len(share) for share in shares if len(share) > len(ids) / 40]
    assert len(used) >= 4, [len(share) for share in shares]


@pytest.mark.parametrize("table", [Table.POINTERS, Table.MUTABLE, Table.NAMES])
def test_splits_of_the_other_tables_are_used_too(backend: Backend, realm: str, scale: Scale, table: Table) -> None:
    names = [f"cat/1/heads/branch-{n:05d}" for n in range(scale.conditional)]
    write: dict[Table, Callable[[str], object]] = {
        Table.POINTERS: lambda name: backend.reserve_pointer(realm, name, pointer()),
        Table.MUTABLE: lambda name: backend.insert_mutable(realm, mutable(name)),
        Table.NAMES: lambda name: backend.add_name(realm, name),
    }
    in_threads([partial(lambda share: [write[table](name) for name in share], names[n::4]) for n in range(4)])
    shares = [[row.key for row in backend.scan(split, realm=realm)] for split in backend.splits(table, 4)]
    assert sorted(itertools.chain(*shares)) == names
    # Names of a realm may lie in few partitions, and chance may leave a share without one.
    assert sum(1 for share in shares if share) >= (2 if table is Table.NAMES else 4), [len(share) for share in shares]


# ── while writers continue ─────────────────────────────────────────────────────────────────────────────────────


class Writers:
    """Threads that add, rewrite and delete until told to stop; a fault in one is raised on leaving."""

    def __init__(self, works: list[Callable[[int], None]]) -> None:
        self.rounds = Counter[int]()
        self._stop = threading.Event()
        self._faults: list[BaseException] = []
        self._threads = [threading.Thread(target=self._run, args=(n, work)) for n, work in enumerate(works)]

    def _run(self, number: int, work: Callable[[int], None]) -> None:
        try:
            while not self._stop.is_set():
                work(self.rounds[number])
                self.rounds[number] += 1
        except BaseException as fault:
            self._faults.append(fault)

    def __enter__(self) -> Writers:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()
        if self._faults:
            raise self._faults[0]


def scan_in_threads(backend: Backend, splits: list[Split], realm: str) -> list[ScannedRow]:
    shares = in_threads([partial(lambda split: list(backend.scan(split, realm=realm)), split) for split in splits])
    return list(itertools.chain(*shares))


def test_objects_there_throughout_are_seen_exactly_once_while_writers_continue(
    backend: Backend, other_backend: Backend, realm: str, scale: Scale
) -> None:
    stable = snowflakes(scale.objects)
    backend.write_objects(realm, [an_object(one, b"") for one in stable])
    rewritten = stable[:: max(1, len(stable) // 50)]
    fresh = itertools.count(1)

    def add(_: int) -> None:
        other_backend.write_objects(realm, [an_object(next(fresh) * 7919) for _ in range(5)])

    def rewrite(round_number: int) -> None:
        one = rewritten[round_number % len(rewritten)]
        other_backend.write_objects(realm, [an_object(one, b"%d" % round_number)])

    with Writers([add, rewrite]) as writers:
        scans = 0
        while scans < 3 or min(writers.rounds[0], writers.rounds[1]) < 10:
            seen = Counter(row.id for row in scan_in_threads(backend, backend.splits(Table.OBJECTS, 4), realm))
            assert [one for one in stable if seen[one] != 1] == []
            assert max(seen.values()) == 1
            scans += 1


def test_pointers_there_throughout_are_seen_exactly_once_while_they_move(
    backend: Backend, other_backend: Backend, realm: str, scale: Scale
) -> None:
    names = [f"p{n:04d}" for n in range(min(scale.conditional, 200))]
    for name in names:
        backend.reserve_pointer(realm, name, pointer(1))
    versions = dict.fromkeys(names, 1)

    def move(round_number: int) -> None:
        name = names[round_number * 7 % len(names)]
        assert other_backend.cas_pointer(realm, name, pointer(versions[name]), pointer(versions[name] + 1))
        versions[name] += 1

    def come_and_go(round_number: int) -> None:
        name = f"passing-{round_number % 5}"
        assert patiently(lambda: other_backend.reserve_pointer(realm, name, pointer(1)))
        assert other_backend.delete_pointer(realm, name, pointer(1))

    with Writers([move, come_and_go]) as writers:
        scans = 0
        while scans < 3 or min(writers.rounds[0], writers.rounds[1]) < 10:
            rows = scan_in_threads(backend, backend.splits(Table.POINTERS, 4), realm)
            seen = Counter(row.key for row in rows)
            assert [name for name in names if seen[name] != 1] == []
            scans += 1


def test_a_scan_of_big_rows_that_stops_half_way_blocks_no_other(backend: Backend, other_backend: Backend, realm: str) -> None:
    rows: list[ObjectRow] = [an_object(n, bytes(10_000)) for n in range(1, 301)]
    backend.write_objects(realm, rows)
    open_scans = [backend.scan(split, realm=realm) for split in backend.splits(Table.OBJECTS, 4)]
    started = [next(scan, None) for scan in open_scans]
    assert any(started)
    other_backend.write_objects(realm, [an_object(1_000)])
    backend.write_objects(realm, [an_object(1_001)])
    assert backend.reserve_pointer(realm, "main", pointer())
    rest = [row.id for scan in open_scans for row in scan] + [row.id for row in started if row]
    assert sorted(set(rest) - {1_000, 1_001}) == [row.id for row in rows]
