"""Closing a realm against writers, openers and initializers that sleep in the middle, and against busy ones.

Each process is a store of its own over one database; the sleeper wakes up after the other one is done.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest

from headwater.persistence.backends import open_backend
from headwater.persistence.coordination.pointer_fences import fence_pointers
from headwater.persistence.coordination.realm_fence import read_realm_fence, take_realm_fence
from headwater.persistence.reading.pointer_log import PointerLog
from headwater.persistence.realms.realm_init import REALM_POINTERS
from headwater.persistence.records.principal_records import PRINCIPALS_POINTER, has_secret
from headwater.persistence.records.records import head_records
from headwater.persistence.store import Store
from headwater.schemas.errors import HeadwaterError, OutcomeUnknown, RealmNotActive, RealmStateConflict
from tests.support.faults.manual_clock import ManualClock
from tests.support.models.realm_cases import WAIT_SECONDS, PausingBackend, notes, realms_of, store_over, write_note

NAME = "tenant"


@pytest.fixture(params=["memory", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    url = f"memory://{tmp_path.name}" if request.param == "memory" else f"sqlite:///{tmp_path}/store.db"
    backend = open_backend(url)
    backend.create_schema()
    backend.close()
    return url


@pytest.fixture
def admin(url: str) -> Iterator[Store]:
    with store_over(url) as store:
        realms_of(store).create(NAME)
        yield store


class Sleeper:
    """A process that falls asleep in the middle of something and wakes up later."""

    def __init__(self, url: str, method: str, pointer: str | None = None) -> None:
        def wrap(backend: Any) -> PausingBackend:
            self.backend = PausingBackend(backend, method, pointer)
            return self.backend

        self.store = store_over(url, wrap)
        self._threads = ThreadPoolExecutor(1)

    def fall_asleep_in(self, work: Callable[[], Any]) -> Future[Any]:
        self.backend.armed = True
        done = self._threads.submit(work)
        assert self.backend.paused.wait(WAIT_SECONDS), "the fault never fired: nothing was paused"
        return done

    def wake(self) -> None:
        self.backend.go_on.set()

    def __enter__(self) -> Sleeper:
        return self

    def __exit__(self, *_: object) -> None:
        self.wake()
        self._threads.shutdown()
        self.store.close()


@pytest.mark.parametrize("pointer", ["catalogs", "cat/7/heads/main"], ids=["known pointer", "new pointer"])
def test_a_writer_between_its_objects_and_its_cas_lands_nothing_after_deactivation(
    url: str, admin: Store, pointer: str
) -> None:
    realms_of(admin).init(NAME)
    with Sleeper(url, "commit", pointer) as writer:
        kernel = realms_of(writer.store).require_active(NAME)
        write_note(kernel, "catalogs", "before")
        late = writer.fall_asleep_in(lambda: write_note(kernel, pointer, "late"))
        realms_of(admin).deactivate(NAME)
        writer.wake()
        with pytest.raises(RealmNotActive):
            late.result(WAIT_SECONDS)
        realms_of(admin).activate(NAME)
        assert set(notes(kernel, "catalogs")) == {"before"} and "late" not in notes(kernel, pointer)
        write_note(kernel, pointer, "after")
        assert "after" in notes(kernel, pointer)


def test_a_writer_that_is_about_to_reserve_a_pointer_finds_the_realm_closed(url: str, admin: Store) -> None:
    realms_of(admin).init(NAME)
    with Sleeper(url, "reserve_pointer", "cat/7/heads/main") as writer:
        kernel = realms_of(writer.store).require_active(NAME)
        late = writer.fall_asleep_in(lambda: write_note(kernel, "cat/7/heads/main", "late"))
        realms_of(admin).deactivate(NAME)
        writer.wake()
        with pytest.raises(RealmNotActive):
            late.result(WAIT_SECONDS)
    assert notes(admin.kernel(kernel.realm), "cat/7/heads/main") == {}


def test_no_acknowledged_commit_is_lost_and_none_lands_while_the_realm_is_closed(url: str, admin: Store) -> None:
    realms_of(admin).init(NAME)
    acknowledged: set[str] = set()
    refused: list[HeadwaterError] = []
    stop = threading.Event()
    writers = [store_over(url) for _ in range(3)]

    def write(number: int) -> None:
        kernel = realms_of(writers[number]).require_active(NAME)
        for n in range(100_000):
            if stop.is_set():
                return
            try:
                write_note(kernel, f"cat/{n % 3}/heads/main", f"{number}-{n}")
                acknowledged.add(f"{number}-{n}")
            except RealmNotActive as error:
                refused.append(error)
                stop.wait(0.001)

    kernel = realms_of(admin).require_active(NAME)
    with ThreadPoolExecutor(3) as threads:
        running = [threads.submit(write, number) for number in range(3)]
        for _ in range(8):
            before = len(acknowledged)
            while len(acknowledged) < before + 10:
                assert not any(done.done() for done in running), "a writer gave up"
                stop.wait(0.002)
            realms_of(admin).deactivate(NAME)
            heads = admin.backend.read_pointers(kernel.realm, admin.backend.list_names(kernel.realm))
            stop.wait(0.02)
            assert admin.backend.read_pointers(kernel.realm, list(heads)) == heads
            realms_of(admin).activate(NAME)
        stop.set()
        for done in running:
            done.result(WAIT_SECONDS)
    assert refused, "no writer ever met the closed realm"
    stored = {key for n in range(3) for key in notes(kernel, f"cat/{n}/heads/main")}
    assert stored >= acknowledged
    for writer in writers:
        writer.close()


def test_an_opener_that_slept_through_a_purge_opens_nothing(url: str, admin: Store) -> None:
    realms_of(admin).init(NAME)
    realms_of(admin).deactivate(NAME)
    with Sleeper(url, "list_names") as opener:  # it has taken the fence and is about to open the pointers
        late = opener.fall_asleep_in(lambda: realms_of(opener.store).activate(NAME))
        realms_of(admin).purge(NAME)
        opener.wake()
        with pytest.raises(RealmStateConflict):
            late.result(WAIT_SECONDS)
    assert realms_of(admin).get(NAME).status == "PURGING"
    assert all(pointer.closed for pointer in realms_of(admin).show(NAME).pointers)
    assert read_realm_fence(admin.backend, realms_of(admin).get(NAME).instance).is_closed


def test_an_opener_that_slept_before_one_row_does_not_open_it(url: str, admin: Store) -> None:
    realms_of(admin).init(NAME)
    realms_of(admin).deactivate(NAME)
    with Sleeper(url, "cas_pointer", "catalogs") as opener:  # the row is read, the fence was still its own
        late = opener.fall_asleep_in(lambda: realms_of(opener.store).activate(NAME))
        realms_of(admin).purge(NAME)
        opener.wake()
        with pytest.raises(RealmStateConflict):
            late.result(WAIT_SECONDS)
    assert all(pointer.closed for pointer in realms_of(admin).show(NAME).pointers)


def test_a_closer_that_slept_does_not_close_a_realm_that_was_opened_again(url: str, admin: Store) -> None:
    realms_of(admin).init(NAME)
    with Sleeper(url, "cas_pointer", "catalogs") as closer:
        late = closer.fall_asleep_in(lambda: realms_of(closer.store).deactivate(NAME))
        realms_of(admin).deactivate(NAME)
        realms_of(admin).activate(NAME)
        closer.wake()
        with pytest.raises(RealmStateConflict):
            late.result(WAIT_SECONDS)
    assert realms_of(admin).get(NAME).status == "ACTIVE"
    assert not any(pointer.closed for pointer in realms_of(admin).show(NAME).pointers)
    write_note(realms_of(admin).require_active(NAME), "catalogs", "open")


@pytest.mark.parametrize("asleep_in", ["commit root", "commit principals", "read_pointer principals"])
def test_if_two_initialize_one_realm_the_secret_shown_is_the_one_stored(url: str, admin: Store, asleep_in: str) -> None:
    with Sleeper(url, *asleep_in.split()) as slow:
        late = slow.fall_asleep_in(lambda: realms_of(slow.store).init(NAME))
        done = realms_of(admin).init(NAME)
        slow.wake()
        with pytest.raises(RealmStateConflict):
            late.result(WAIT_SECONDS)
    kernel = realms_of(admin).require_active(NAME)
    principal = head_records(kernel, PRINCIPALS_POINTER).get(("root",))
    assert principal is not None and has_secret(kernel, principal.value, done.client_secret)
    assert sum(len(logged.entry.operations) for logged in PointerLog(kernel, PRINCIPALS_POINTER).forward()) == 1


def test_an_initializer_that_slept_through_a_purge_lands_nothing(url: str, admin: Store) -> None:
    with Sleeper(url, "commit", "grants") as slow:
        late = slow.fall_asleep_in(lambda: realms_of(slow.store).init(NAME))
        realms_of(admin).purge(NAME)
        slow.wake()
        with pytest.raises(RealmNotActive):
            late.result(WAIT_SECONDS)
    realms_of(admin).finish_purge(NAME)
    assert realms_of(admin).get(NAME).status == "PURGED"


class ForgetfulBackend:
    """Every second conditional write of a fence is applied but not answered, every other one is lost on the way."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.landed = self.lost = 0

    def __getattr__(self, attribute: str) -> Any:
        found = getattr(self._inner, attribute)
        if attribute not in ("cas_pointer", "insert_mutable", "update_mutable"):
            return found

        def forgetful(*arguments: Any) -> Any:
            if "node-lease" in repr(arguments):
                return found(*arguments)
            turn = (self.landed + self.lost) % 3
            if turn == 0:
                self.landed += 1
                found(*arguments)
                raise OutcomeUnknown("the answer was lost")
            if turn == 1:
                self.lost += 1
                raise OutcomeUnknown("the request was lost")
            self.landed += 1
            return found(*arguments)

        return forgetful


def test_unknown_outcomes_while_closing_and_opening_are_decided_by_reading(url: str, admin: Store) -> None:
    realms_of(admin).init(NAME)
    with store_over(url, ForgetfulBackend, ManualClock(admin.clock.now_micros())) as forgetful:
        for _ in range(3):
            realms_of(forgetful).deactivate(NAME)
            assert all(pointer.closed for pointer in realms_of(admin).show(NAME).pointers)
            realms_of(forgetful).activate(NAME)
            assert not any(pointer.closed for pointer in realms_of(admin).show(NAME).pointers)
        backend: Any = forgetful.backend
        assert backend.landed > 10 and backend.lost > 5, "the faults never fired"


def test_a_deactivation_that_crashed_half_way_is_completed_by_another_one(url: str, admin: Store) -> None:
    realms_of(admin).init(NAME)
    kernel = realms_of(admin).require_active(NAME)
    with Sleeper(url, "cas_pointer", "grants") as crashed:
        never = crashed.fall_asleep_in(lambda: realms_of(crashed.store).deactivate(NAME))
        assert realms_of(admin).get(NAME).status == "ACTIVE"
        with pytest.raises(RealmNotActive):
            write_note(kernel, "catalogs", "half closed")
        assert realms_of(admin).deactivate(NAME).status == "INACTIVE"
        crashed.wake()
        with pytest.raises(RealmStateConflict):
            never.result(WAIT_SECONDS)
    assert all(pointer.closed for pointer in realms_of(admin).show(NAME).pointers)


def test_reopening_never_sets_an_earlier_fence(url: str, admin: Store) -> None:
    """A sweep on a machine whose clock is ahead has fenced the realm; no older object may come in after a reopening."""
    realms_of(admin).init(NAME)
    instance, backend = realms_of(admin).get(NAME).instance, admin.backend
    ahead = admin.clock.now_micros() + 3_600_000_000
    held = take_realm_fence(backend, read_realm_fence(backend, instance), ahead, admin.clock)
    assert held is not None and fence_pointers(backend, held, admin.clock) == len(REALM_POINTERS)
    realms_of(admin).deactivate(NAME)
    realms_of(admin).activate(NAME)
    rows = backend.read_pointers(instance, REALM_POINTERS)
    assert {row.fence for row in rows.values()} == {read_realm_fence(backend, instance).fence} == {ahead + 1}


def test_a_realm_that_only_scans_can_delete_is_purged_by_scan(url: str, admin: Store) -> None:
    class ScanOnly:
        def __init__(self, inner: Any) -> None:
            self._inner = inner

        def __getattr__(self, attribute: str) -> Any:
            found = getattr(self._inner, attribute)
            if attribute == "abilities":
                return msgspec.structs.replace(found, can_delete_realms=False)
            assert attribute != "delete_realms"
            return found

    realms_of(admin).init(NAME)
    kernel = realms_of(admin).require_active(NAME)
    for n in range(30):
        write_note(kernel, "cat/1/heads/main", f"n{n}")
    realms_of(admin).deactivate(NAME)
    realms_of(admin).purge(NAME)
    with store_over(url, ScanOnly) as scanning:
        purged, counts = realms_of(scanning).finish_purge(NAME)
    assert purged.status == "PURGED" and counts.deleted is not None and counts.deleted > 60
    assert admin.backend.list_names(kernel.realm) == []
