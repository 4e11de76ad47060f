"""A store's incarnation: written once, the same for everybody, replaced once however many notice a restore."""

from __future__ import annotations

from functools import partial

from headwater.persistence.backend import Backend
from headwater.persistence.clock import SystemClock
from headwater.persistence.coordination.incarnation import ensure_incarnation, read_incarnation, replace_incarnation
from headwater.persistence.coordination.restored_store import announce_restored
from tests.support.fixtures.contract_rows import in_threads, pointer


def test_every_process_that_opens_a_store_finds_one_incarnation(backend: Backend, other_backend: Backend) -> None:
    found = in_threads([partial(ensure_incarnation, one, SystemClock()) for one in (backend, other_backend) * 4])
    assert len({one.id for one in found}) == 1
    assert read_incarnation(other_backend) == found[0]
    assert len(found[0].id) == 32


def test_one_of_many_processes_that_notice_a_restore_writes_the_new_incarnation(
    backend: Backend, other_backend: Backend
) -> None:
    before = ensure_incarnation(backend, SystemClock())
    notice = [partial(replace_incarnation, one, SystemClock(), before, "restored") for one in (backend, other_backend) * 4]
    after = in_threads(notice)
    assert {one.id for one in after} == {read_incarnation(backend).id}  # type: ignore[union-attr]
    assert after[0].id != before.id
    assert after[0].number == before.number + 1
    assert after[0].since >= before.since


def test_the_identity_of_a_data_copy_stays_until_it_is_replaced(backend: Backend, other_backend: Backend) -> None:
    assert backend.data_identity() == other_backend.data_identity() == backend.data_identity()


def test_a_commit_prepared_before_a_restore_was_announced_does_not_land(backend: Backend, realm: str) -> None:
    """Also onto a pointer that the restore has left as it was: what the commit refers to may be gone."""
    before, held = ensure_incarnation(backend, SystemClock()), pointer(7)
    backend.add_name(realm, "main")
    assert backend.reserve_pointer(realm, "main", held)
    done = announce_restored(backend, SystemClock(), "back to last night")
    assert (done.incarnation.id != before.id, done.incarnation.reason) == (True, "back to last night")
    assert done.pointers >= 1
    assert not backend.cas_pointer(realm, "main", held, pointer(8))
    there = backend.read_pointer(realm, "main")
    assert there is not None and (there.head, there.seq, there.floor) == (held.head, held.seq, held.floor)
