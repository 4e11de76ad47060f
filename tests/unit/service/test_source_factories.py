"""Kinds of sources: those of plug-ins, sound and broken."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from headwater.producer.connectors.source_spi import ConnectorSpec
from headwater.schemas.errors import DuplicateRegistration, InvalidInput
from headwater.service.reconciling.source_factories import ReconcileOptions, source_factories


def install(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, module: str, text: str) -> None:
    """An installed distribution with one entry point."""
    info = folder / f"{module}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[headwater.connectors]\n{name} = {module}:FACTORY\n")
    (folder / f"{module}.py").write_text(text)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, module, raising=False)


def test_a_plug_in_adds_a_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, "lakeful", "lakeful_plugin", "FACTORY = 'a factory'\n")
    assert source_factories(ReconcileOptions())["lakeful"] == "a factory"  # type: ignore[comparison-overlap]


def test_a_plug_in_that_cannot_be_loaded_affects_only_its_own_connectors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, monkeypatch, "broken", "broken_plugin", "import nothing_of_this_name\n")
    factories = source_factories(ReconcileOptions())
    assert {"nessie", "headwater", "iceberg-rest", "delta"} <= factories.keys()
    spec = ConnectorSpec(source="broken", uri="any://", roots=("s3://lake/",))
    for use in (factories["broken"].check_spec, lambda spec: factories["broken"].open(spec, b"")):
        with pytest.raises(InvalidInput, match=re.escape("ModuleNotFoundError: No module named 'nothing_of_this_name'")):
            use(spec)


def test_a_plug_in_does_not_replace_a_source_that_is_built_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, "nessie", "other_nessie", "FACTORY = None\n")
    with pytest.raises(DuplicateRegistration, match="nessie"):
        source_factories(ReconcileOptions())
