"""A folder of retained sets belongs to one store, also after that was restored."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.schemas.errors import InvalidInput
from headwater.streaming.retained.folder_owner import claim_folder
from headwater.streaming.retained.retained_store import RetainedStore


def with_a_set(folder: str, instance: str) -> None:
    (RetainedStore(folder, instance).folder / "step-000000001").mkdir(parents=True)


def test_a_folder_of_another_store_is_refused_and_stays_as_it_was(tmp_path: Path) -> None:
    folder = str(tmp_path / "sets")
    claim_folder(folder, "one", ["::system::", "a#1"])
    claim_folder(folder, "one", [])
    with_a_set(folder, "a#1")
    with pytest.raises(InvalidInput, match="maintenance_dir") as refused:
        claim_folder(folder, "two", ["::system::", "a#2"])
    assert refused.value.remedy
    claim_folder(folder, "one", [])


def test_a_folder_without_sets_goes_to_the_next_store(tmp_path: Path) -> None:
    folder = str(tmp_path / "sets")
    claim_folder(folder, "one", ["a#1"])
    claim_folder(folder, "two", ["a#2"])
    with_a_set(folder, "a#2")
    with pytest.raises(InvalidInput, match="maintenance_dir"):
        claim_folder(folder, "one", ["a#1"])


def test_a_restored_store_keeps_its_folder(tmp_path: Path) -> None:
    folder = str(tmp_path / "sets")
    claim_folder(folder, "one", ["a#1"])
    with_a_set(folder, "a#1")
    claim_folder(folder, "two", ["::system::", "a#1"])
    claim_folder(folder, "two", [])


def test_a_folder_that_cannot_be_created_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInput, match="maintenance_dir"):
        claim_folder(str(tmp_path / "file" / "sets"), "one", [])
