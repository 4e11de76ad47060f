"""What a store URL of SQLite may say, and the one clear line for what it may not."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.persistence.backends import open_backend
from headwater.persistence.backends.sqlite import open_sqlite
from headwater.schemas.errors import InvalidStoreUrl


def test_three_slashes_are_relative_and_four_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for url in ("sqlite:///here.db", f"sqlite:///{tmp_path}/there.db", "sqlite:///with%20space%3F.db"):
        backend = open_backend(url)
        backend.create_schema()
        backend.close()
    assert {path.name for path in tmp_path.glob("*.db")} == {"here.db", "there.db", "with space?.db"}


@pytest.mark.parametrize(
    "url",
    [
        "sqlite://",
        "sqlite:///",
        "sqlite://store.db",
        "sqlite://[",
        "sqlite:///:memory:",
        "sqlite:///store.db#part",
        "sqlite:///store.db?synchronous=off",
        "sqlite:///store.db?synchronous=OFF",
        "sqlite:///store.db?busy_timeout_seconds=soon",
        "sqlite:///store.db?busy_timeout_seconds=-1",
        "sqlite:///store.db?colour=red",
    ],
)
def test_an_invalid_url_is_refused_with_a_remedy(url: str) -> None:
    with pytest.raises(InvalidStoreUrl) as caught:
        open_sqlite(url)
    assert caught.value.remedy
    assert "\n" not in str(caught.value)
