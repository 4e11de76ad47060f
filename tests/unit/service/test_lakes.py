"""A warehouse names a branch with `:` for `/`, and a time keeps its colons."""

from __future__ import annotations

import pytest

from headwater.producer.references.reference_specs import parse_reference_spec
from headwater.service.iceberg.operations.lakes import spelled_out


@pytest.mark.parametrize(
    ("reference", "meant"),
    [
        ("main", "main"),
        ("team:dev", "team/dev"),
        ("main*2026-11-17T06:46:00Z", "main*2026-11-17T06:46:00Z"),
        ("team:dev*2026-11-17T06:46:00Z", "team/dev*2026-11-17T06:46:00Z"),
        ("team:dev~2", "team/dev~2"),
        ("", ""),
    ],
)
def test_colons_replace_slashes_only_in_the_name(reference: str, meant: str) -> None:
    assert spelled_out(reference) == meant
    if meant:
        parse_reference_spec(meant)
