"""What `import headwater` promises."""

from __future__ import annotations

import subprocess
import sys

import pytest

import headwater

PUBLIC = {
    "Base",
    "Behavior",
    "Catalog",
    "Change",
    "Delete",
    "DeltaTable",
    "Filter",
    "Headwater",
    "HeadwaterError",
    "IcebergTable",
    "IcebergView",
    "KeyRule",
    "Kind",
    "MergeRules",
    "Metrics",
    "Namespace",
    "Op",
    "Operation",
    "OtherContent",
    "Put",
    "Reference",
    "Rename",
    "Spans",
    "Udf",
    "Unchanged",
    "connect",
    "open",
}


def test_the_public_names_are_exactly_these() -> None:
    assert set(headwater.__all__) == PUBLIC


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_every_public_name_can_be_used(name: str) -> None:
    assert getattr(headwater, name) is not None


def test_a_public_name_is_looked_up_once() -> None:
    """Not at each use: that would cost a commit a tenth of its time."""
    assert headwater.Put is vars(headwater)["Put"]


def test_other_names_are_refused() -> None:
    with pytest.raises(AttributeError, match="no attribute 'store'"):
        _ = headwater.store  # type: ignore[attr-defined]


def test_importing_the_contract_imports_no_database_driver() -> None:
    code = "import headwater.schemas.change, sys; print({'sqlalchemy', 'psycopg', 'cassandra'} & set(sys.modules))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "set()"
