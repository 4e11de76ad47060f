"""One suite, four databases: `backend` is each of them in turn, real and shared by the run; `realm` is new for every test."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headwater.persistence.backend import Backend
from headwater.persistence.backends import open_backend
from tests.contract_stores import KINDS, Scale, fresh_url, scale_of


@pytest.fixture(scope="session", params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="session")
def scale(kind: str) -> Scale:
    """How much of everything: Cassandra pays some milliseconds for every conditional write."""
    return scale_of(kind)


@pytest.fixture(scope="session")
def new_store(kind: str, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Callable[[], str]:
    """`new_store()` is the URL of a store that nobody has used and that has no schema yet."""
    folder: Path = tmp_path_factory.mktemp(kind)
    return lambda: fresh_url(kind, request, folder)


@pytest.fixture(scope="session")
def store_url(new_store: Callable[[], str]) -> str:
    """The store that most tests share."""
    url = new_store()
    backend = open_backend(url)
    backend.create_schema()
    backend.check_schema()
    # A store that loses its name here loses its rows: memory keeps a named one for the whole process.
    backend.close()
    return url


@pytest.fixture(scope="session")
def backend(store_url: str) -> Iterator[Backend]:
    opened = open_backend(store_url)
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def other_backend(store_url: str) -> Iterator[Backend]:
    """The same store, through connections of its own."""
    opened = open_backend(store_url)
    yield opened
    opened.close()


@pytest.fixture
def realm() -> str:
    return f"realm-{secrets.token_hex(6)}@1"


@pytest.fixture
def other_realm() -> str:
    return f"realm-{secrets.token_hex(6)}@1"
