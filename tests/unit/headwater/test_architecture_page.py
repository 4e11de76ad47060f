"""docs/architecture.md names only files and folders that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
LAYERS = "schemas|persistence|producer|consumers|streaming|service|headwater"
PATHS = sorted(set(re.findall(rf"`((?:{LAYERS})/[\w/.]*)`", (ROOT / "docs" / "architecture.md").read_text())))


def test_the_page_names_paths() -> None:
    assert len(PATHS) > 30


@pytest.mark.parametrize("path", PATHS)
def test_a_path_on_the_page_exists(path: str) -> None:
    assert (ROOT / path).exists()
