"""The repository's own rules: first lines, names, layers, and documents that name tests which exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
LAYERS = ["consumers", "persistence", "producer", "schemas", "service", "streaming"]


def _own_modules() -> list[Path]:
    """Each file once: not again through the symlinks."""
    found = [path for folder in [*LAYERS, "headwater"] for path in (ROOT / folder).rglob("*.py")]
    return sorted(path for path in found if path.resolve() == path)


MODULES = _own_modules()
FOLDERS = [path.parent for path in MODULES if path.name == "__init__.py"]
MODULES_OF_FOLDER_MAX = 15


@pytest.mark.parametrize("layer", LAYERS)
def test_each_layer_is_imported_through_a_relative_symlink(layer: str) -> None:
    link = ROOT / "headwater" / layer
    assert link.is_symlink()
    assert str(link.readlink()) == f"../{layer}"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_module_begins_with_its_purpose(path: Path) -> None:
    docstring = ast.get_docstring(ast.parse(path.read_text()))
    assert docstring, f"{path} does not say what it is for"


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_folder_states_its_purpose_and_reading_order(folder: Path) -> None:
    docstring = ast.get_docstring(ast.parse((folder / "__init__.py").read_text()))
    assert docstring, f"{folder} does not say what it is for"
    docstring = re.sub(r"`[^`]*`", "", docstring)  # names in code are of other things
    here = {path.stem if path.suffix else f"{path.name}/" for path in folder.iterdir()}
    orders = re.findall(r"^Read ([^.;:(]+)", docstring, re.MULTILINE)
    assert orders, f"{folder} does not say in which order to read it"
    first = {word for order in orders for word in re.split(r",? and |,? then |, |\s+first$", " ".join(order.split())) if word}
    named = first | set(re.findall(r"(?<![\w/])[a-z]+(?:_[a-z0-9]+)+(?![\w/.])|(?<![\w/])[a-z_]+/(?!\w)", docstring))
    assert named <= here, f"{folder} names what is not in it: {named - here}"
    paths = re.findall(r"[\w/]+\.py\b", docstring)
    assert not [path for path in paths if not (ROOT / path).exists()]


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_folder_names_all_its_modules_and_folders(folder: Path) -> None:
    docstring = ast.get_docstring(ast.parse((folder / "__init__.py").read_text())) or ""
    modules = {path.stem for path in folder.glob("*.py") if not path.stem.startswith("__") and not path.stem.endswith("_pb2")}
    folders = {path.parent.name for path in folder.glob("*/__init__.py")}
    assert modules | folders <= set(re.findall(r"\w+", docstring))


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_folder_has_more_modules_than_fit_one_view(folder: Path) -> None:
    assert len(list(folder.glob("*.py"))) - 1 <= MODULES_OF_FOLDER_MAX


def test_the_architecture_page_draws_every_folder_of_every_layer() -> None:
    tree = (ROOT / "docs" / "architecture.md").read_text().partition("## The tree")[2].partition("## ")[0]
    of_layer = {part.split("/")[0]: part for part in re.split(r"^(?=[a-z]+/ )", tree, flags=re.MULTILINE)}
    folders = [folder.relative_to(ROOT).parts for folder in FOLDERS]
    missing = [parts for parts in folders if len(parts) == 2 and not re.search(rf"\b{parts[1]}/", of_layer.get(parts[0], ""))]
    assert not missing


def test_no_module_is_a_drawer() -> None:
    drawers = {"utils", "util", "helpers", "helper", "common", "misc", "base"}
    assert not [path for path in MODULES if path.stem in drawers]


@pytest.mark.parametrize(
    ("rule", "home"),
    [
        (r"MICROS(_PER_SECOND)? = 1_000_000\b", "persistence/clock.py"),
        (r'\.r?partition\("#"\)', "persistence/rows.py"),
        (r"while .*:= .*\.list_(names|mutable)\(", "persistence/backend.py"),
    ],
)
def test_small_rules_are_stated_once(rule: str, home: str) -> None:
    found = [str(path.relative_to(ROOT)) for path in MODULES if re.search(rule, path.read_text())]
    assert found == [home]


def test_no_layer_is_imported_by_its_bare_name() -> None:
    bare = re.compile(rf"^\s*(?:from|import) ({'|'.join(LAYERS)})\b", re.MULTILINE)
    everywhere = [*MODULES, *(ROOT / "tests").rglob("*.py"), *(ROOT / "bench").rglob("*.py")]
    assert not [path for path in everywhere if bare.search(path.read_text())]


@pytest.mark.parametrize("document", ["guarantees.md", "invariants.md"])
def test_every_test_that_a_document_names_exists(document: str) -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", (ROOT / "docs" / document).read_text())
    assert named, f"{document} names no test"
    for file, test in named:
        assert (ROOT / file).exists(), f"{document} names {file}, which does not exist"
        assert re.search(rf"\b(?:def|class) {test}\b|^{test} = ", (ROOT / file).read_text(), re.MULTILINE), (
            f"{file} has no {test}"
        )


def test_requirements_are_pinned_by_hash_and_name_no_host() -> None:
    text = (ROOT / "requirements.txt").read_text()
    assert "://" not in text
    pins = re.findall(r"^[A-Za-z0-9_.\[\]-]+==", text, re.MULTILINE)
    assert len(pins) > 50
    assert text.count("--hash=sha256:") >= len(pins)


def test_commands_open_stores_only_through_their_target() -> None:
    """It refuses a server that was named to a command on the store."""
    target = ROOT / "headwater" / "cli" / "target.py"
    commands = [path for path in MODULES if path.is_relative_to(target.parent) and path != target]
    assert [path.name for path in commands if re.search(r"\b(opened_store|open_store)\b", path.read_text())] == []
