"""A store is created explicitly, any number of times, by anybody at once; one of another version is refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headwater.persistence.backend import Backend, DurabilityLevel
from headwater.persistence.backends import open_backend
from headwater.schemas.errors import StoreNotCreated, StoreVersionMismatch
from tests.support.fixtures.contract_rows import in_threads, pointer
from tests.support.fixtures.contract_stores import pretend_version


def test_a_store_without_a_schema_is_reported(new_store: Callable[[], str]) -> None:
    backend = open_backend(new_store())
    with pytest.raises(StoreNotCreated) as caught:
        backend.check_schema()
    assert caught.value.remedy
    backend.close()


def test_creating_the_schema_again_changes_nothing(new_store: Callable[[], str], realm: str) -> None:
    backend = open_backend(new_store())
    backend.create_schema()
    assert backend.reserve_pointer(realm, "main", pointer())
    backend.create_schema()
    backend.check_schema()
    assert backend.read_pointer(realm, "main") == pointer()
    backend.close()


def test_many_may_create_the_schema_at_once(new_store: Callable[[], str], realm: str) -> None:
    url = new_store()
    backends = [open_backend(url) for _ in range(4)]
    in_threads([backend.create_schema for backend in backends])
    for backend in backends:
        backend.check_schema()
    assert backends[0].reserve_pointer(realm, "main", pointer())
    assert backends[3].read_pointer(realm, "main") == pointer()
    for backend in backends:
        backend.close()


@pytest.mark.parametrize("off_by", [1, -1])
def test_a_store_of_another_version_is_refused(new_store: Callable[[], str], kind: str, off_by: int) -> None:
    url = new_store()
    backend = open_backend(url)
    backend.create_schema()
    other = backend.schema_version + off_by
    pretend_version(kind, url, other)
    opened = open_backend(url)
    for refused in (opened.check_schema, opened.create_schema, opened.check_schema):
        with pytest.raises(StoreVersionMismatch, match=f"version {other}"):
            refused()
    opened.close()
    backend.close()


def test_durability_is_read_from_the_live_server_and_reported(backend: Backend, kind: str) -> None:
    durability = backend.durability()
    if kind == "memory":
        assert durability.level is DurabilityLevel.VOLATILE
        assert durability.warnings
    else:
        assert durability.level is DurabilityLevel.DURABLE, durability
        assert durability.settings


def test_a_backend_knows_its_name_and_whether_processes_share_it(backend: Backend, kind: str) -> None:
    assert backend.name == kind
    assert backend.abilities.shared_between_processes == (kind != "memory")


def test_closing_one_backend_twice_leaves_the_others_open(store_url: str, backend: Backend, realm: str) -> None:
    passing = open_backend(store_url)
    passing.add_name(realm, "main")
    passing.close()
    passing.close()
    assert backend.list_names(realm) == ["main"]
