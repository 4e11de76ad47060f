"""Any sequence of calls: each backend answers as a plain dictionary would."""

from __future__ import annotations

import itertools
import os
import secrets
from typing import Any

import msgspec
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from headwater.persistence.backend import Backend, DeleteResult
from headwater.persistence.rows import Anchor, MutableRow, ObjectRow, PointerRow, ScannedRow, Table
from tests.support.fixtures.contract_stores import Scale

REALMS = st.integers(0, 1)
NAMES = st.sampled_from(["a", "a/b", "a%", "b", "é", "𝔘"])
IDS = st.integers(1, 6) | st.just(2**63 - 1)
PARTS = st.integers(0, 2)
TYPES = st.sampled_from(["lease", "run"])
PAYLOADS = st.binary(max_size=20)
WRONG_BY = st.sampled_from([0, 0, 0, 1, -1])
"""How far an expected version is off; mostly it is right."""

_serial = itertools.count(1)

Kept = tuple[Any, int]
"""A row and the serial number of its write, which the model's deletes compare."""


class BackendMachine(RuleBasedStateMachine):
    """Two fresh realms of one store beside four dictionaries. Every rule does the same to both and compares the answers."""

    def __init__(self, backend: Backend) -> None:
        super().__init__()
        self.backend = backend
        token = secrets.token_hex(6)
        self.realms = [f"stateful-{token}-{n}@1" for n in range(2)]
        self.model: dict[Table, dict[tuple[str, str, str, int, int], Kept]] = {table: {} for table in Table}
        self.scanned: list[tuple[ScannedRow, int]] = []
        self.moved: set[tuple[str, str]] = set()
        self.tokens = {realm: backend.moves_since(realm, None).token for realm in self.realms}

    def _keep(self, table: Table, key: tuple[str, str, str, int, int], row: Any) -> None:
        self.model[table][key] = (row, next(_serial))

    def _row(self, table: Table, key: tuple[str, str, str, int, int]) -> Any:
        kept = self.model[table].get(key)
        return kept[0] if kept else None

    # ── pointers ────────────────────────────────────────────────────────────────────────────────────────────

    @rule(realm=REALMS, name=NAMES, seq=st.integers(0, 9))
    def reserve(self, realm: int, name: str, seq: int) -> None:
        key = (self.realms[realm], "", name, 0, 0)
        row = PointerRow(head=secrets.token_bytes(32), seq=seq, created_at=next(_serial))
        self.add_name(realm, name)
        assert self.backend.reserve_pointer(self.realms[realm], name, row) == (key not in self.model[Table.POINTERS])
        if key not in self.model[Table.POINTERS]:
            self._keep(Table.POINTERS, key, row)
            self.moved.add((self.realms[realm], name))

    @rule(realm=REALMS, name=NAMES, wrong_by=WRONG_BY, fence=st.integers(0, 2**63 - 1), anchored=st.booleans())
    def cas(self, realm: int, name: str, wrong_by: int, fence: int, anchored: bool) -> None:
        expected, row, applies = self._next_pointer(realm, name, wrong_by)
        row = msgspec.structs.replace(row, fence=fence, anchor=Anchor(row.head, fence) if anchored else None)
        assert self.backend.cas_pointer(self.realms[realm], name, expected, row) == applies
        if applies:
            self._keep(Table.POINTERS, (self.realms[realm], "", name, 0, 0), row)

    @rule(realm=REALMS, name=NAMES, wrong_by=WRONG_BY, ids=st.lists(IDS, max_size=3, unique=True), payload=PAYLOADS)
    def commit(self, realm: int, name: str, wrong_by: int, ids: list[int], payload: bytes) -> None:
        expected, row, applies = self._next_pointer(realm, name, wrong_by)
        objects = [ObjectRow(one, "note", next(_serial), payload) for one in ids]
        assert self.backend.commit(self.realms[realm], name, expected, row, objects) == applies
        if applies:
            self._keep(Table.POINTERS, (self.realms[realm], "", name, 0, 0), row)
        if applies or not self.backend.abilities.commits_in_one_transaction:
            for written in objects:
                self._keep(Table.OBJECTS, (self.realms[realm], "", "", written.id, 0), written)

    @rule(realm=REALMS, name=NAMES, wrong_by=WRONG_BY)
    def delete_pointer(self, realm: int, name: str, wrong_by: int) -> None:
        expected, _, applies = self._next_pointer(realm, name, wrong_by)
        assert self.backend.delete_pointer(self.realms[realm], name, expected) == applies
        if applies:
            del self.model[Table.POINTERS][self.realms[realm], "", name, 0, 0]

    def _next_pointer(self, realm: int, name: str, wrong_by: int) -> tuple[PointerRow, PointerRow, bool]:
        """Expected row, row to write, and whether that must be applied; half of what is wrong is the head alone."""
        there = self._row(Table.POINTERS, (self.realms[realm], "", name, 0, 0))
        version = there.version if there else 1
        row = PointerRow(head=secrets.token_bytes(32), version=version + 1, created_at=there.created_at if there else 1)
        expected = there or PointerRow(head=b"absent", created_at=1)
        if wrong_by > 0:
            expected = msgspec.structs.replace(expected, head=secrets.token_bytes(32))
        elif wrong_by < 0:
            expected = msgspec.structs.replace(expected, version=version + wrong_by)
        return expected, row, there is not None and wrong_by == 0

    @rule(realm=REALMS, names=st.lists(NAMES, max_size=4))
    def read_pointers(self, realm: int, names: list[str]) -> None:
        expected = {
            name: row for name in names if (row := self._row(Table.POINTERS, (self.realms[realm], "", name, 0, 0))) is not None
        }
        assert self.backend.read_pointers(self.realms[realm], names) == expected
        for name in names:
            assert self.backend.read_pointer(self.realms[realm], name, decide=True) == expected.get(name)

    # ── names ───────────────────────────────────────────────────────────────────────────────────────────────

    @rule(realm=REALMS, name=NAMES)
    def add_name(self, realm: int, name: str) -> None:
        self.backend.add_name(self.realms[realm], name)
        self._keep(Table.NAMES, (self.realms[realm], "", name, 0, 0), None)

    @rule(realm=REALMS, prefix=st.sampled_from(["", "a", "a%", "é"]), after=st.just("") | NAMES, limit=st.integers(1, 9))
    def list_names(self, realm: int, prefix: str, after: str, limit: int) -> None:
        names = [key[2] for key in self.model[Table.NAMES] if key[0] == self.realms[realm]]
        expected = sorted(name for name in names if name.startswith(prefix) and name > after)[:limit]
        assert self.backend.list_names(self.realms[realm], prefix=prefix, after=after, limit=limit) == expected

    # ── objects ─────────────────────────────────────────────────────────────────────────────────────────────

    @rule(realm=REALMS, rows=st.lists(st.tuples(IDS, PARTS, PAYLOADS), max_size=5, unique_by=lambda row: row[:2]))
    def write_objects(self, realm: int, rows: list[tuple[int, int, bytes]]) -> None:
        objects = [ObjectRow(one, "note", next(_serial), payload, part, 3) for one, part, payload in rows]
        self.backend.write_objects(self.realms[realm], objects)
        for row in objects:
            self._keep(Table.OBJECTS, (self.realms[realm], "", "", row.id, row.part), row)

    @rule(realm=REALMS, ids=st.lists(IDS, max_size=4))
    def fetch_objects(self, realm: int, ids: list[int]) -> None:
        expected: dict[int, list[ObjectRow]] = {}
        for key, (row, _) in sorted(self.model[Table.OBJECTS].items()):
            if key[0] == self.realms[realm] and key[3] in ids:
                expected.setdefault(key[3], []).append(row)
        assert self.backend.fetch_objects(self.realms[realm], ids) == expected

    # ── mutable rows ─────────────────────────────────────────────────────────────────────────────────────────

    @rule(realm=REALMS, type=TYPES, key=NAMES, payload=PAYLOADS, expires_at=st.integers(0, 2**63 - 1))
    def insert_mutable(self, realm: int, type: str, key: str, payload: bytes, expires_at: int) -> None:
        model_key = (self.realms[realm], type, key, 0, 0)
        row = MutableRow(type=type, key=key, created_at=next(_serial), expires_at=expires_at, payload=payload)
        assert self.backend.insert_mutable(self.realms[realm], row) == (model_key not in self.model[Table.MUTABLE])
        if model_key not in self.model[Table.MUTABLE]:
            self._keep(Table.MUTABLE, model_key, row)

    @rule(realm=REALMS, type=TYPES, key=NAMES, payload=PAYLOADS, wrong_by=WRONG_BY)
    def update_mutable(self, realm: int, type: str, key: str, payload: bytes, wrong_by: int) -> None:
        model_key = (self.realms[realm], type, key, 0, 0)
        there = self._row(Table.MUTABLE, model_key)
        version = there.version if there else 1
        created_at = there.created_at if there else 1
        row = MutableRow(type=type, key=key, version=version + 1, created_at=created_at, payload=payload)
        applies = there is not None and wrong_by == 0
        assert self.backend.update_mutable(self.realms[realm], self._expected(there, row, wrong_by), row) == applies
        if applies:
            self._keep(Table.MUTABLE, model_key, row)

    @rule(realm=REALMS, type=TYPES, key=NAMES, wrong_by=WRONG_BY)
    def delete_mutable(self, realm: int, type: str, key: str, wrong_by: int) -> None:
        model_key = (self.realms[realm], type, key, 0, 0)
        there = self._row(Table.MUTABLE, model_key)
        applies = there is not None and wrong_by == 0
        row = MutableRow(type=type, key=key, created_at=1)
        assert self.backend.delete_mutable(self.realms[realm], self._expected(there, row, wrong_by)) == applies
        if applies:
            del self.model[Table.MUTABLE][model_key]

    def _expected(self, there: MutableRow | None, absent: MutableRow, wrong_by: int) -> MutableRow:
        """What is there; half of what is wrong is the payload alone."""
        expected = there or absent
        if wrong_by > 0:
            return msgspec.structs.replace(expected, payload=expected.payload + b"other")
        return msgspec.structs.replace(expected, version=expected.version + wrong_by)

    @rule(realm=REALMS, type=TYPES, after=st.just("") | NAMES, limit=st.integers(1, 9))
    def list_mutable(self, realm: int, type: str, after: str, limit: int) -> None:
        keys = sorted(key for key in self.model[Table.MUTABLE] if key[:2] == (self.realms[realm], type) and key[2] > after)
        expected = [self.model[Table.MUTABLE][key][0] for key in keys[:limit]]
        assert self.backend.list_mutable(self.realms[realm], type, after=after, limit=limit) == expected

    # ── maintenance ─────────────────────────────────────────────────────────────────────────────────────────

    @rule(table=st.sampled_from(list(Table)), realm=REALMS, count=st.integers(1, 5))
    def scan(self, table: Table, realm: int, count: int) -> None:
        rows = [
            row for split in self.backend.splits(table, count) for row in self.backend.scan(split, realm=self.realms[realm])
        ]
        assert sorted(map(_key, rows)) == sorted(key for key in self.model[table] if key[0] == self.realms[realm])
        self.scanned += [(row, self.model[table][_key(row)][1]) for row in rows]

    @rule(choice=st.randoms(use_true_random=False))
    def delete_scanned(self, choice: Any) -> None:
        """Some of all that was ever scanned: only what was not written since may go."""
        chosen = choice.sample(self.scanned, min(len(self.scanned), 4))
        rows, deleted = [], 0
        for row, serial in {(*_key(row), row.table): (row, serial) for row, serial in chosen}.values():
            rows.append(row)
            kept = self.model[row.table].get(_key(row))
            if kept is not None and kept[1] == serial:
                del self.model[row.table][_key(row)]
                deleted += 1
        assert self.backend.delete_scanned(rows) == DeleteResult(deleted=deleted, spared=len(rows) - deleted)

    @rule(realm=REALMS)
    def purge(self, realm: int) -> None:
        """In bulk where the backend can, else by scan."""
        gone = self.realms[realm]
        if self.backend.abilities.can_delete_realms:
            self.backend.delete_realms([gone])
        else:
            for table in Table:
                for split in self.backend.splits(table, 2):
                    self.backend.delete_scanned(list(self.backend.scan(split, realm=gone)))
        for rows in self.model.values():
            for key in [key for key in rows if key[0] == gone]:
                del rows[key]

    @invariant()
    def every_pointer_that_is_there_was_seen_to_move(self) -> None:
        """Names may be too many, never too few."""
        if next(_serial) % 7:
            return  # a look now and then is enough
        for realm in self.realms:
            there = {key[2] for key in self.model[Table.POINTERS] if key[0] == realm}
            named = {key[2] for key in self.model[Table.NAMES] if key[0] == realm}
            assert there & named <= set(self.backend.moves_since(realm, self.tokens[realm]).versions)


def _key(row: ScannedRow) -> tuple[str, str, str, int, int]:
    return (row.realm, row.type if row.table is Table.MUTABLE else "", row.key, row.id, row.part)


def test_a_backend_answers_as_a_dictionary_would(backend: Backend, scale: Scale) -> None:
    soak = 50 if os.environ.get("HEADWATER_SOAK") else 1
    run_state_machine_as_test(
        lambda: BackendMachine(backend),  # type: ignore[arg-type]
        settings=settings(
            max_examples=scale.examples * soak,
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
