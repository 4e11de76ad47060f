"""Many writers, one row: never two winners, exactly one once unknown outcomes are resolved, no update lost."""

from __future__ import annotations

import secrets
import threading
from functools import partial

from headwater.persistence.backend import Backend
from headwater.persistence.rows import PointerRow
from headwater.schemas.errors import OutcomeUnknown, StoreUnavailable
from tests.support.fixtures.contract_rows import an_object, cas_resolved, in_threads, mutable, patiently, pointer
from tests.support.fixtures.contract_stores import Scale

WRITERS = 16


def contenders(version: int) -> list[PointerRow]:
    return [pointer(version, head=secrets.token_bytes(32)) for _ in range(WRITERS)]


def test_of_sixteen_writers_racing_one_cas_exactly_one_wins(
    backend: Backend, other_backend: Backend, realm: str, scale: Scale
) -> None:
    there = pointer(1)
    backend.reserve_pointer(realm, "main", there)
    for version in range(1, scale.rounds + 1):
        rows = contenders(version + 1)
        backends = [backend, other_backend]
        won = in_threads([partial(cas_resolved, backends[n % 2], realm, "main", there, row) for n, row in enumerate(rows)])
        assert won.count(True) == 1
        there = rows[won.index(True)]
        assert backend.read_pointer(realm, "main") == there


def test_of_sixteen_commits_racing_exactly_one_lands_with_its_objects(backend: Backend, realm: str, scale: Scale) -> None:
    before = pointer(1)
    backend.reserve_pointer(realm, "main", before)
    for version in range(1, max(2, scale.rounds // 2) + 1):
        rows = contenders(version + 1)

        def commit(n: int, version: int = version, rows: list[PointerRow] = rows, before: PointerRow = before) -> bool | None:
            try:
                return backend.commit(realm, "main", before, rows[n], [an_object(version * 100 + n)])
            except (OutcomeUnknown, StoreUnavailable):
                return None

        answers = in_threads([partial(commit, n) for n in range(WRITERS)])
        there = backend.read_pointer(realm, "main", decide=True)
        assert answers.count(True) <= 1
        assert there in rows, "nobody's row is there, though somebody must have won"
        if True in answers:
            assert there == rows[answers.index(True)]
        found = set(backend.fetch_objects(realm, [version * 100 + n for n in range(WRITERS)]))
        assert version * 100 + rows.index(there) in found
        if backend.abilities.commits_in_one_transaction:
            assert found == {version * 100 + rows.index(there)}
        before = there


def test_at_most_one_of_sixteen_reservations_of_one_name_succeeds(backend: Backend, realm: str, scale: Scale) -> None:
    for n in range(max(2, scale.rounds // 3)):
        rows = contenders(1)

        def reserve(row: PointerRow, name: str = f"p{n}") -> bool | None:
            try:
                return backend.reserve_pointer(realm, name, row)
            except (OutcomeUnknown, StoreUnavailable):
                return None

        answers = in_threads([partial(reserve, row) for row in rows])
        there = backend.read_pointer(realm, f"p{n}", decide=True)
        assert there in rows
        assert answers.count(True) <= 1
        if True in answers:
            assert there == rows[answers.index(True)]
        else:
            assert None in answers, "all were refused, yet one is there"


def test_no_update_of_a_mutable_row_is_lost(backend: Backend, other_backend: Backend, realm: str, scale: Scale) -> None:
    """A counter in the payload, raised by four threads: a lost update would leave it too low."""
    assert backend.insert_mutable(realm, mutable("counter", 1, payload=b"{}"))
    raises_each = max(3, scale.rounds // 2)

    def work(one: Backend, who: int) -> None:
        for n in range(raises_each):
            token = b"%d.%d," % (who, n)
            while True:
                row = patiently(lambda: one.read_mutable(realm, "lease", "counter"))
                assert row is not None
                if token in row.payload:
                    break
                try:
                    one.update_mutable(realm, row, mutable("counter", row.version + 1, payload=row.payload + token))
                except (OutcomeUnknown, StoreUnavailable):
                    continue

    backends = [backend, other_backend]
    in_threads([partial(work, backends[who % 2], who) for who in range(4)])
    row = backend.read_mutable(realm, "lease", "counter")
    assert row is not None
    tokens = row.payload.removeprefix(b"{}").split(b",")[:-1]
    assert sorted(tokens) == sorted(b"%d.%d" % (who, n) for who in range(4) for n in range(raises_each))
    assert row.version == 1 + len(tokens)


def test_a_read_deciding_or_not_sees_what_was_acknowledged_before_it_began(
    backend: Backend, other_backend: Backend, realm: str, scale: Scale
) -> None:
    backend.reserve_pointer(realm, "main", pointer(1))
    lock = threading.Lock()
    acknowledged = [1]
    stale: list[tuple[int, int]] = []

    def write(who: int) -> None:
        for _ in range(scale.rounds):
            row = patiently(lambda: backend.read_pointer(realm, "main"))
            assert row is not None
            try:
                won = backend.cas_pointer(realm, "main", row, pointer(row.version + 1, head=bytes([who]) * 32))
            except (OutcomeUnknown, StoreUnavailable):
                continue
            if won:
                with lock:
                    acknowledged.append(row.version + 1)

    def read(decide: bool) -> None:
        for _ in range(scale.rounds):
            with lock:
                known = max(acknowledged)
            row = patiently(lambda: other_backend.read_pointer(realm, "main", decide=decide))
            assert row is not None
            if row.version < known:
                stale.append((row.version, known))

    in_threads([*(partial(write, who) for who in range(4)), partial(read, True), partial(read, False)])
    assert stale == []
    assert len(acknowledged) > 1
    assert len(set(acknowledged)) == len(acknowledged), "two writers were told that they won the same version"


def test_names_added_by_many_at_once_are_all_there(backend: Backend, other_backend: Backend, realm: str) -> None:
    backends = [backend, other_backend]

    def add(who: int) -> None:
        for n in range(10):
            backends[who % 2].add_name(realm, f"shared-{n}")
            backends[who % 2].add_name(realm, f"own-{who}-{n}")

    in_threads([partial(add, who) for who in range(8)])
    expected = [f"own-{who}-{n}" for who in range(8) for n in range(10)] + [f"shared-{n}" for n in range(10)]
    assert backend.list_names(realm) == sorted(expected)
