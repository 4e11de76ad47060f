"""Packs the installed package into a zip that Spark ships to executors: modules, schemas and entry points.

Symlinks become what they point to. The entry points are included, because store backends are found through them. The package's
own dependencies (msgspec, SQLAlchemy, drivers, pyarrow) have compiled parts and must be installed where the executors run.
"""

from __future__ import annotations

import importlib.metadata
import zipfile
from pathlib import Path

import headwater

ZIP_NAME = "headwater-package.zip"
SHIPPED_SUFFIXES = (".py", ".avsc", ".proto", ".json", ".yaml", ".typed")


def write_package_zip(folder: Path) -> Path:
    root = Path(next(iter(headwater.__path__)))
    target = folder / ZIP_NAME
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, file in sorted(_files(root, Path("headwater"))):
            archive.write(file, str(name))
        _write_metadata(archive)
    return target


def _files(folder: Path, name: Path) -> list[tuple[Path, Path]]:
    """Not rglob: it does not follow the links through which the layers are reached."""
    found: list[tuple[Path, Path]] = []
    for child in folder.iterdir():
        if child.is_dir() and child.name != "__pycache__":
            found += _files(child, name / child.name)
        elif child.suffix in SHIPPED_SUFFIXES:
            found.append((name / child.name, child))
    return found


def _write_metadata(archive: zipfile.ZipFile) -> None:
    distribution = importlib.metadata.distribution("headwater")
    stem = f"headwater-{distribution.version}.dist-info"
    for name in ("METADATA", "entry_points.txt"):
        archive.writestr(f"{stem}/{name}", distribution.read_text(name) or "")
