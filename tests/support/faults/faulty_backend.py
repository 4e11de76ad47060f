"""Passes calls on to a real backend, counts them, and lets the fault that was armed for one of them fire.

A fault wraps the call: it may crash the process before or after it, lose its answer, send it twice, or let others act in
between. A crashed backend answers nothing more, as if its process were gone. Each fault counts that it fired.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import msgspec

from headwater.persistence.backend import Abilities, Backend, DeleteResult, Durability, Moves, MoveToken, ObjectKey
from headwater.persistence.rows import MutableRow, ObjectRow, PointerRow, ScannedRow, Split, Table
from headwater.schemas.errors import OutcomeUnknown, StoreUnavailable

T = TypeVar("T")
Act = Callable[[Callable[[], Any]], Any]


class Crash(BaseException):
    """The process ends here. Not an Exception: nothing may handle it."""


class Fault:
    """What happens to one call of a method: the first after arming, or after `skip` more."""

    def __init__(self, method: str, act: Act, *, skip: int = 0, name: str = "") -> None:
        self.method = method
        self.act = act
        self.skip = skip
        self.name = name or method
        self.fired = 0


def crash_before(method: str, *, skip: int = 0) -> Fault:
    def act(call: Callable[[], Any]) -> Any:
        raise Crash(f"before {method}")

    return Fault(method, act, skip=skip, name=f"crash before {method}")


def crash_after(method: str, *, skip: int = 0) -> Fault:
    def act(call: Callable[[], Any]) -> Any:
        call()
        raise Crash(f"after {method}")

    return Fault(method, act, skip=skip, name=f"crash after {method}")


def unknown(method: str, *, landed: bool, then: Callable[[], object] = lambda: None, skip: int = 0) -> Fault:
    """The answer is lost; `then` is what others do before the writer asks again."""

    def act(call: Callable[[], Any]) -> Any:
        if landed:
            call()
        then()
        raise OutcomeUnknown(f"the answer of {method} was lost.")

    return Fault(method, act, skip=skip, name=f"{method} unknown, {'landed' if landed else 'not landed'}")


def unavailable(method: str, *, skip: int = 0) -> Fault:
    def act(call: Callable[[], Any]) -> Any:
        raise StoreUnavailable(f"{method} was not sent.")

    return Fault(method, act, skip=skip, name=f"{method} unavailable")


def twice(method: str, *, between: Callable[[], object] = lambda: None, skip: int = 0) -> Fault:
    """The driver sends it again by itself: the caller hears the second answer alone."""

    def act(call: Callable[[], Any]) -> Any:
        call()
        between()
        return call()

    return Fault(method, act, skip=skip, name=f"{method} sent twice")


def first(method: str, others: Callable[[], object], *, skip: int = 0) -> Fault:
    """Others act just before the call goes out."""

    def act(call: Callable[[], Any]) -> Any:
        others()
        return call()

    return Fault(method, act, skip=skip, name=f"others before {method}")


class Pause:
    """Holds the call until it is released."""

    def __init__(self, method: str, *, skip: int = 0) -> None:
        self.reached = threading.Event()
        self._go_on = threading.Event()
        self.fault = Fault(method, self._act, skip=skip, name=f"paused before {method}")

    def _act(self, call: Callable[[], Any]) -> Any:
        self.reached.set()
        assert self._go_on.wait(30), "a paused writer was forgotten"
        return call()

    def wake(self) -> None:
        self._go_on.set()


class FaultyBackend(Backend):
    """`in_two_steps` commits as a database without transactions does: objects first, then the CAS, each with its faults."""

    def __init__(self, inner: Backend, *, in_two_steps: bool = False) -> None:
        self.inner = inner
        self.name = inner.name
        self.in_two_steps = in_two_steps
        in_transaction = inner.abilities.commits_in_one_transaction and not in_two_steps
        self.abilities: Abilities = msgspec.structs.replace(inner.abilities, commits_in_one_transaction=in_transaction)
        self.calls: Counter[str] = Counter()
        self.dead = False
        self._faults: list[Fault] = []
        self._lock = threading.Lock()

    def arm(self, *faults: Fault) -> Fault:
        with self._lock:
            self._faults.extend(faults)
        return faults[0]

    def disarm(self) -> None:
        with self._lock:
            self._faults.clear()

    def _do(self, method: str, call: Callable[[], T]) -> T:
        if self.dead:
            raise Crash("this process is gone")
        fault = self._strike(method)
        if fault is None:
            return call()
        fault.fired += 1
        try:
            answer: T = fault.act(call)
        except Crash:
            self.dead = True
            raise
        return answer

    def _strike(self, method: str) -> Fault | None:
        with self._lock:
            self.calls[method] += 1
            for fault in self._faults:
                if fault.method != method:
                    continue
                if fault.skip:
                    fault.skip -= 1
                    continue
                self._faults.remove(fault)
                return fault
        return None

    # ── the SPI ─────────────────────────────────────────────────────────────────────────────────────────────

    def create_schema(self) -> None:
        self.inner.create_schema()

    def check_schema(self) -> None:
        self.inner.check_schema()

    def durability(self) -> Durability:
        return self.inner.durability()

    def data_identity(self) -> str:
        return self.inner.data_identity()

    def data_copy(self) -> str:
        return self.inner.data_copy()

    def close(self) -> None:
        self.inner.close()

    def reserve_pointer(self, realm: str, name: str, row: PointerRow) -> bool:
        return self._do("reserve_pointer", lambda: self.inner.reserve_pointer(realm, name, row))

    def read_pointer(self, realm: str, name: str, *, decide: bool = False) -> PointerRow | None:
        method = "decide_pointer" if decide else "read_pointer"
        return self._do(method, lambda: self.inner.read_pointer(realm, name, decide=decide))

    def read_pointers(self, realm: str, names: Sequence[str]) -> dict[str, PointerRow]:
        return self._do("read_pointers", lambda: self.inner.read_pointers(realm, names))

    def cas_pointer(self, realm: str, name: str, expected: PointerRow, row: PointerRow) -> bool:
        return self._do("cas_pointer", lambda: self.inner.cas_pointer(realm, name, expected, row))

    def delete_pointer(self, realm: str, name: str, expected: PointerRow) -> bool:
        return self._do("delete_pointer", lambda: self.inner.delete_pointer(realm, name, expected))

    def moves_since(self, realm: str, token: MoveToken | None) -> Moves:
        return self._do("moves_since", lambda: self.inner.moves_since(realm, token))

    def add_name(self, realm: str, name: str) -> None:
        self._do("add_name", lambda: self.inner.add_name(realm, name))

    def list_names(self, realm: str, *, prefix: str = "", after: str = "", limit: int = 1_000) -> list[str]:
        return self._do("list_names", lambda: self.inner.list_names(realm, prefix=prefix, after=after, limit=limit))

    def write_objects(self, realm: str, rows: Sequence[ObjectRow]) -> None:
        self._do("write_objects", lambda: self.inner.write_objects(realm, rows))

    def fetch_objects(self, realm: str, ids: Sequence[int]) -> dict[int, list[ObjectRow]]:
        return self._do("fetch_objects", lambda: self.inner.fetch_objects(realm, ids))

    def remove_objects(self, realm: str, keys: Sequence[ObjectKey]) -> None:
        self._do("remove_objects", lambda: self.inner.remove_objects(realm, keys))

    def commit(
        self, realm: str, name: str, expected: PointerRow, row: PointerRow, objects: Sequence[ObjectRow], *, of: str = ""
    ) -> bool:
        if self.in_two_steps:
            return super().commit(realm, name, expected, row, objects, of=of)
        return self._do("commit", lambda: self.inner.commit(realm, name, expected, row, objects, of=of))

    def insert_mutable(self, realm: str, row: MutableRow) -> bool:
        return self._do("insert_mutable", lambda: self.inner.insert_mutable(realm, row))

    def read_mutable(self, realm: str, type: str, key: str) -> MutableRow | None:
        return self._do("read_mutable", lambda: self.inner.read_mutable(realm, type, key))

    def update_mutable(self, realm: str, expected: MutableRow, row: MutableRow) -> bool:
        return self._do("update_mutable", lambda: self.inner.update_mutable(realm, expected, row))

    def delete_mutable(self, realm: str, expected: MutableRow) -> bool:
        return self._do("delete_mutable", lambda: self.inner.delete_mutable(realm, expected))

    def list_mutable(self, realm: str, type: str, *, after: str = "", limit: int = 1_000) -> list[MutableRow]:
        return self._do("list_mutable", lambda: self.inner.list_mutable(realm, type, after=after, limit=limit))

    def splits(self, table: Table, count: int) -> list[Split]:
        return self.inner.splits(table, count)

    def scan(self, split: Split, *, realm: str | None = None) -> Iterator[ScannedRow]:
        return self.inner.scan(split, realm=realm)

    def delete_scanned(self, rows: Sequence[ScannedRow], *, of: str = "") -> DeleteResult:
        return self._do("delete_scanned", lambda: self.inner.delete_scanned(rows, of=of))

    def delete_realms(self, realms: Sequence[str], *, of: str = "") -> None:
        self._do("delete_realms", lambda: self.inner.delete_realms(realms, of=of))
