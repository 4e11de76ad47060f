"""The package as it is built and declared: its files, its dependencies, and what the command imports before it works."""

from __future__ import annotations

import ast
import importlib.metadata
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from headwater.schemas.errors import MissingDependency
from headwater.schemas.extras import EXTRA_OF_PACKAGE, needs_extra
from tests.support.fixtures.installs import build, build_through_sdist, names_in

ROOT = Path(__file__).resolve().parents[3]
LAYERS = ["consumers", "persistence", "producer", "schemas", "service", "streaming"]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
MODULES_OF_HELP_MAX = 300
"""267 today; an import of the engine or of httpx adds more than a hundred."""


@pytest.fixture(scope="module")
def wheel_names(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    return names_in(build("wheel", ROOT, tmp_path_factory.mktemp("wheel")))


def test_the_wheel_holds_the_package_and_nothing_else(wheel_names: set[str]) -> None:
    assert {name.split("/")[0] for name in wheel_names if ".dist-info/" not in name} == {"headwater"}
    assert "headwater/persistence/backend.py" in wheel_names


def test_the_wheel_holds_every_module_of_the_checkout(wheel_names: set[str]) -> None:
    layers = {f"headwater/{path.relative_to(ROOT)}" for layer in LAYERS for path in (ROOT / layer).rglob("*.py")}
    face = {str(path.relative_to(ROOT)) for path in (ROOT / "headwater").rglob("*.py")}
    assert layers | face <= wheel_names


def test_the_wheel_built_from_the_sdist_has_the_same_files(wheel_names: set[str], tmp_path: Path) -> None:
    assert names_in(build_through_sdist(tmp_path)) == wheel_names


def test_the_package_declares_that_it_is_typed(wheel_names: set[str]) -> None:
    assert "headwater/py.typed" in wheel_names


# ── dependencies ────────────────────────────────────────────────────────────────────────────────────────────


def distribution(requirement: str) -> str:
    return re.split(r"[\[<>=!~; ]", requirement, maxsplit=1)[0].lower().replace("_", "-")


def declared(extra: str) -> set[str]:
    """Distributions that an extra installs, with those of the extras that it names."""
    found: set[str] = set()
    for requirement in EXTRAS[extra]:
        if other := re.fullmatch(r"headwater\[([\w,]+)\]", requirement):
            found = found.union(*(declared(name) for name in other.group(1).split(",")))
        else:
            found.add(distribution(requirement))
    return found


def imported_packages() -> dict[str, Path]:
    """Packages of others that the product imports, each with one module that does."""
    found: dict[str, Path] = {}
    modules = [path for folder in [*LAYERS, "headwater"] for path in (ROOT / folder).rglob("*.py") if path.resolve() == path]
    for path in modules:
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [node.module or ""]
            found |= {name.partition(".")[0]: path for name in names}
    return {name: path for name, path in found.items() if name not in sys.stdlib_module_names and name != "headwater"}


def test_every_imported_package_is_declared_in_the_core_or_in_the_extra_that_errors_name() -> None:
    core = {distribution(requirement) for requirement in PROJECT["dependencies"]}
    distributions = importlib.metadata.packages_distributions()
    for package, path in imported_packages().items():
        homes = {home.lower().replace("_", "-") for home in distributions[package]}
        if homes & core:
            continue
        assert package in EXTRA_OF_PACKAGE, f"{path} imports {package}, which schemas/extras.py does not know"
        extra = EXTRA_OF_PACKAGE[package]
        assert homes & declared(extra), f"{path} imports {package}, which headwater[{extra}] does not declare"


def test_the_readme_lists_every_extra() -> None:
    readme = (ROOT / "README.md").read_text()
    assert not [extra for extra in EXTRAS if extra != "dev" and f"`{extra}`" not in readme]


def test_pins_of_faust_and_cel_are_in_extras_of_their_own() -> None:
    def carriers(name: str) -> set[str]:
        return {extra for extra in EXTRAS if name in declared(extra)}

    assert carriers("faust-streaming") == carriers("click") == {"faust"}
    assert carriers("common-expression-language") == {"nessie"}
    assert [requirement for requirement in PROJECT["dependencies"] if distribution(requirement) == "click"] == ["click>=8.1"]


def test_a_missing_package_names_its_extra() -> None:
    with pytest.raises(MissingDependency, match=r"httpx: .*headwater\[client\]") as refused, needs_extra("reading"):
        raise ModuleNotFoundError("No module named 'httpx'", name="httpx")
    assert refused.value.facts == {"extra": "client"}


@pytest.mark.parametrize("package", ["headwater.no_such_module", "no_such_package"])
def test_a_failed_import_that_no_extra_mends_passes_through(package: str) -> None:
    with pytest.raises(ModuleNotFoundError), needs_extra("reading"):
        raise ModuleNotFoundError(f"No module named {package!r}", name=package)


# ── what the command imports ────────────────────────────────────────────────────────────────────────────────

RUN = """
import sys
from headwater.cli import main
try:
    main()
except SystemExit as ended:
    assert not ended.code, ended
print(*sys.modules)
"""


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["serve", "--help"], ["maintain", "--help"]], ids=" ".join)
def test_help_imports_neither_the_engine_nor_http(arguments: list[str]) -> None:
    done = subprocess.run([sys.executable, "-c", RUN, *arguments], capture_output=True, text=True, check=True, cwd=ROOT)
    modules = done.stdout.splitlines()[-1].split()
    heavy = {"asyncio", "ssl", "httpx", "sqlalchemy", "starlette", "headwater.persistence.store", "headwater.embedded"}
    assert not heavy.intersection(modules)
    assert len(modules) <= MODULES_OF_HELP_MAX
