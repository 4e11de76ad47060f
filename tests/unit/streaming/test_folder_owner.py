"""A folder of retained sets belongs to one store, also after that was restored."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.schemas.errors import InvalidInput
from headwater.streaming.retained.folder_owner import claim_folder


def test_a_folder_of_another_store_is_refused_and_stays_as_it_was(tmp_path: Path) -> None:
    folder = str(tmp_path / "sets")
    claim_folder(folder, "one", ["::system::", "a#1"])
    claim_folder(folder, "one", [])
    with pytest.raises(InvalidInput, match="maintenance_dir") as refused:
        claim_folder(folder, "two", ["::system::", "a#2"])
    assert refused.value.remedy
    claim_folder(folder, "one", [])


def test_a_restored_store_keeps_its_folder(tmp_path: Path) -> None:
    folder = str(tmp_path / "sets")
    claim_folder(folder, "one", ["a#1"])
    (tmp_path / "sets" / "a#1").mkdir()
    claim_folder(folder, "two", ["::system::", "a#1"])
    claim_folder(folder, "two", [])


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInput, match="maintenance_dir"):
        claim_folder(str(tmp_path / "file" / "sets"), "one", [])
