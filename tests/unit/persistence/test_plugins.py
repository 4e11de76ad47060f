"""Others bring a backend or an object type by installing a package; two that claim one name are refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

TOY_MODULE = """
import msgspec
from headwater.persistence.backends.memory.memory_backend import MemoryBackend, MemoryStore
from headwater.persistence.objects.object_types import Life, ObjectType


class ToyBackend(MemoryBackend):
    name = "toy"


def open_toy(url):
    return ToyBackend(MemoryStore())


class Parrot(msgspec.Struct, frozen=True, array_like=True):
    says: str


PARROT = ObjectType("toy.parrot", Parrot, Life.LOGGED)
"""

TOY_ENTRY_POINTS = """
[headwater.backends]
toy = {module}:open_toy

[headwater.object_types]
parrot = {module}:PARROT
"""


def install(folder: Path, module: str, entry_points: str = TOY_ENTRY_POINTS) -> None:
    """What pip leaves behind: a module and its dist-info."""
    (folder / f"{module}.py").write_text(TOY_MODULE)
    info = folder / f"{module}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(entry_points.format(module=module))


def run(folder: Path, script: str) -> Any:
    """The JSON that a script prints in a process of its own, where the folder is installed."""
    environ = os.environ | {"PYTHONPATH": str(folder)}
    done = subprocess.run([sys.executable, "-c", script], env=environ, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


USE_TOY = """
import json
from headwater.persistence.backends import open_backend
from headwater.persistence.objects.object_types import all_object_types
from headwater.persistence.objects.realm_objects import NewObject, RealmObjects
from headwater.persistence.rows import PointerRow

backend = open_backend("toy://anywhere")
backend.create_schema()
backend.check_schema()
moved = backend.reserve_pointer("r@1", "main", PointerRow(created_at=1)) and backend.cas_pointer(
    "r@1", "main", PointerRow(created_at=1), PointerRow(created_at=1, version=2))
parrot = all_object_types().find("toy.parrot")
objects = RealmObjects(backend, "r@1", types=all_object_types())
objects.write_strong([NewObject(parrot, 1, parrot.struct("hello"))], created_at=1)
print(json.dumps([backend.name, moved, objects.fetch_any([1])[1].says]))
"""


def test_a_backend_and_an_object_type_come_from_another_package(tmp_path: Path) -> None:
    install(tmp_path, "toy_one")
    assert run(tmp_path, USE_TOY) == ["toy", True, "hello"]


CAUGHT = """
import json
from headwater.persistence.backends import open_backend
from headwater.persistence.objects.object_types import OBJECT_TYPES, all_object_types
from headwater.schemas.errors import HeadwaterError
try:
    {what}
    print(json.dumps(["nothing", ""]))
except HeadwaterError as error:
    print(json.dumps([error.code, str(error)]))
"""


def test_two_packages_that_claim_one_scheme_or_type_are_refused(tmp_path: Path) -> None:
    install(tmp_path, "toy_one")
    install(tmp_path, "toy_two")
    code, text = run(tmp_path, CAUGHT.format(what='open_backend("toy://x")'))
    assert code == "DUPLICATE_REGISTRATION"
    assert "toy_one:open_toy" in text
    assert "toy_two:open_toy" in text
    code, text = run(tmp_path, CAUGHT.format(what="all_object_types()"))
    assert code == "DUPLICATE_REGISTRATION"
    assert "toy.parrot" in text


def test_no_package_may_take_over_a_built_in_backend(tmp_path: Path) -> None:
    install(tmp_path, "toy_one", "[headwater.backends]\nmemory = {module}:open_toy\n")
    code, text = run(tmp_path, CAUGHT.format(what='open_backend("memory://")'))
    assert code == "DUPLICATE_REGISTRATION"
    assert "memory://" in text


def test_no_package_may_take_over_a_type_that_is_registered(tmp_path: Path) -> None:
    install(tmp_path, "toy_one")
    taken = 'from toy_one import Parrot, ObjectType, Life; OBJECT_TYPES.register(ObjectType("toy.parrot", Parrot, Life.OWNED))'
    code, text = run(tmp_path, CAUGHT.format(what=f"{taken}; all_object_types()"))
    assert code == "DUPLICATE_REGISTRATION"
    assert "toy.parrot" in text


@pytest.mark.parametrize("url", ["nosuch://x", "no scheme at all", ""])
def test_an_unknown_scheme_is_refused_and_the_installed_ones_are_named(tmp_path: Path, url: str) -> None:
    install(tmp_path, "toy_one")
    code, text = run(tmp_path, CAUGHT.format(what=f"open_backend({url!r})"))
    assert code == "INVALID_STORE_URL"
    for scheme in ("memory://", "sqlite://", "postgresql://", "cassandra://", "toy://"):
        assert scheme in text
