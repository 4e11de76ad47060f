"""What a store URL of PostgreSQL may say; a password in it never reaches a message."""

from __future__ import annotations

import sys

import pytest

from headwater.persistence.backends import open_backend
from headwater.persistence.backends.postgresql import open_postgresql
from headwater.schemas.errors import InvalidStoreUrl, MissingDependency, StoreUnavailable


@pytest.mark.parametrize(
    "url",
    [
        "postgres://user:s3cret@host/database",
        "postgresql:/user:s3cret@host/database",
        "postgresql://user:s3cret@host:port/database",
        "postgresql://user:s3cret@host:99999999/database",
        "postgresql://user:s3cret%zz@host/database",
        "postgresql://user:s3cret@[::1/database",
        "postgresql://user:s3cret@host/database?colour=red",
        "postgresql://user:s3cret@host/database?pool_size=many",
    ],
)
def test_a_url_that_cannot_be_read_is_refused_without_its_password(url: str) -> None:
    with pytest.raises((InvalidStoreUrl, StoreUnavailable)) as caught:
        open_backend(url).check_schema()
    assert "s3cret" not in f"{caught.value}{caught.value.facts}{caught.value.__cause__}"
    assert caught.value.remedy
    assert "\n" not in str(caught.value)


def test_an_unreachable_server_is_unavailable_and_named_without_the_password() -> None:
    backend = open_postgresql("postgresql://user:s3cret@127.0.0.1:1/database")
    with pytest.raises(StoreUnavailable, match=r"127\.0\.0\.1:1/database") as caught:
        backend.check_schema()
    assert "s3cret" not in str(caught.value)
    backend.close()


def test_without_the_driver_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(MissingDependency, match=r"headwater\[postgres\]"):
        open_postgresql("postgresql://localhost/database")
