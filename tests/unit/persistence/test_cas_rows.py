"""Conditional writes of mutable rows: every unknown outcome is resolved by one rule."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path

import pytest

from headwater.persistence.backends.memory.memory_backend import MemoryBackend, MemoryStore
from headwater.persistence.coordination.cas_rows import SEND_TRIES_MAX, cas_row, change_row, delete_row, next_row
from headwater.persistence.rows import SYSTEM_REALM, MutableRow
from headwater.schemas.errors import OutcomeUnknown, StoreUnavailable
from tests.support.faults.faulty_backend import FaultyBackend, twice, unavailable, unknown
from tests.support.faults.manual_clock import ManualClock

ROOT = Path(__file__).parents[3]
WRITES = {"insert_mutable", "update_mutable", "delete_mutable"}
MAY_WRITE = {"persistence/backend.py", "persistence/backends", "persistence/coordination/cas_rows.py"}


@pytest.fixture
def backend() -> FaultyBackend:
    inner = MemoryBackend(MemoryStore())
    inner.create_schema()
    return FaultyBackend(inner)


def first_row(payload: bytes = b"one") -> MutableRow:
    return next_row("run", "key", None, payload, 1)


def written(backend: FaultyBackend) -> MutableRow:
    row = first_row()
    assert cas_row(backend, SYSTEM_REALM, None, row, ManualClock())
    return row


def there(backend: FaultyBackend) -> bytes | None:
    row = backend.inner.read_mutable(SYSTEM_REALM, "run", "key")
    return None if row is None else row.payload


def replaced_by_another(backend: FaultyBackend) -> Callable[[], object]:
    def act() -> None:
        row = backend.inner.read_mutable(SYSTEM_REALM, "run", "key")
        other = next_row("run", "key", row, b"of another", 2)
        assert cas_row(backend.inner, SYSTEM_REALM, row, other, ManualClock())

    return act


def test_if_two_writers_read_the_same_row_one_writes(backend: FaultyBackend) -> None:
    clock, row = ManualClock(), written(backend)
    assert not cas_row(backend, SYSTEM_REALM, None, first_row(b"two"), clock)
    assert cas_row(backend, SYSTEM_REALM, row, next_row("run", "key", row, b"three", 2), clock)
    assert not cas_row(backend, SYSTEM_REALM, row, next_row("run", "key", row, b"four", 2), clock)
    found = backend.read_mutable(SYSTEM_REALM, "run", "key")
    assert found is not None and (found.payload, found.version, found.created_at) == (b"three", 2, 1)


@pytest.mark.parametrize("landed", [True, False])
@pytest.mark.parametrize("method", ["insert_mutable", "update_mutable"])
def test_a_write_whose_outcome_is_unknown_is_there_afterwards(backend: FaultyBackend, method: str, landed: bool) -> None:
    before = None if method == "insert_mutable" else written(backend)
    fault = backend.arm(unknown(method, landed=landed))
    assert cas_row(backend, SYSTEM_REALM, before, next_row("run", "key", before, b"new", 2), ManualClock())
    assert fault.fired == 1 and there(backend) == b"new"


@pytest.mark.parametrize("landed", [True, False])
def test_a_write_that_lost_after_an_unknown_outcome_is_not_sent_again(backend: FaultyBackend, landed: bool) -> None:
    before = written(backend)
    fault = backend.arm(unknown("update_mutable", landed=landed, then=replaced_by_another(backend)))
    assert not cas_row(backend, SYSTEM_REALM, before, next_row("run", "key", before, b"new", 2), ManualClock())
    assert fault.fired == 1 and there(backend) == b"of another"


@pytest.mark.parametrize("landed", [True, False])
def test_an_unknown_outcome_is_not_reported_as_unavailable_when_the_store_goes_away(
    backend: FaultyBackend, landed: bool
) -> None:
    before = written(backend)
    fault = backend.arm(unknown("update_mutable", landed=landed))
    backend.arm(*(unavailable("read_mutable") for _ in range(SEND_TRIES_MAX)))
    backend.arm(*(unavailable("update_mutable") for _ in range(SEND_TRIES_MAX - 1)))
    with pytest.raises(OutcomeUnknown):
        cas_row(backend, SYSTEM_REALM, before, next_row("run", "key", before, b"new", 2), ManualClock())
    assert fault.fired == 1 and backend.calls["update_mutable"] == SEND_TRIES_MAX


def test_a_write_that_was_surely_not_applied_is_left_to_the_caller(backend: FaultyBackend) -> None:
    fault = backend.arm(unavailable("insert_mutable"))
    with pytest.raises(StoreUnavailable):
        cas_row(backend, SYSTEM_REALM, None, first_row(), ManualClock())
    assert fault.fired == 1 and there(backend) is None


def test_a_row_with_a_token_is_recognized_when_the_driver_sent_it_twice(backend: FaultyBackend) -> None:
    fault = backend.arm(twice("insert_mutable"))
    assert cas_row(backend, SYSTEM_REALM, None, first_row(b"token"), ManualClock(), has_token=True)
    assert fault.fired == 1


def test_equal_rows_without_a_token_have_one_winner(backend: FaultyBackend) -> None:
    written(backend)
    assert not cas_row(backend, SYSTEM_REALM, None, first_row(), ManualClock())


@pytest.mark.parametrize("landed", [True, False])
def test_a_delete_whose_outcome_is_unknown_has_deleted_the_row_afterwards(backend: FaultyBackend, landed: bool) -> None:
    row = written(backend)
    fault = backend.arm(unknown("delete_mutable", landed=landed))
    assert delete_row(backend, SYSTEM_REALM, row, ManualClock())
    assert fault.fired == 1 and there(backend) is None


def test_a_row_that_was_written_again_is_not_deleted(backend: FaultyBackend) -> None:
    row = written(backend)
    fault = backend.arm(unknown("delete_mutable", landed=False, then=replaced_by_another(backend)))
    assert not delete_row(backend, SYSTEM_REALM, row, ManualClock())
    assert not delete_row(backend, SYSTEM_REALM, row, ManualClock())
    assert fault.fired == 1 and there(backend) == b"of another"


def test_a_change_applies_to_a_row_that_was_rewritten_meanwhile(backend: FaultyBackend) -> None:
    row = written(backend)
    fault = backend.arm(unknown("update_mutable", landed=False, then=replaced_by_another(backend)))

    def appended(before: MutableRow | None) -> bytes:
        assert before is not None
        return before.payload + b" and ours"

    assert change_row(backend, SYSTEM_REALM, "run", row.key, appended, ManualClock())
    assert fault.fired == 1 and there(backend) == b"of another and ours"


def test_no_other_module_calls_the_conditional_writes_of_a_backend() -> None:
    layers = ["schemas", "persistence", "producer", "consumers", "streaming", "service", "headwater"]
    files = [path for layer in layers for path in sorted((ROOT / layer).rglob("*.py"))]
    callers = {
        str(path.resolve().relative_to(ROOT))
        for path in files
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr in WRITES
    }
    assert "persistence/coordination/cas_rows.py" in callers
    assert [one for one in sorted(callers) if not one.startswith(tuple(MAY_WRITE))] == []
