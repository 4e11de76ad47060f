"""One step of a retained set in its folder: Parquet rows, and a small file beside them that says what they are."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from headwater.streaming.reachability.segments import Bounds, SegmentPosition

META, MERGED = "step.json", "merged.json"
ROWS = "rows"
COMPACTING = "compacting-"
"""Begins the name of a folder in which smaller rows are prepared."""


class StepMeta(msgspec.Struct, frozen=True, kw_only=True):
    number: int
    realm: str
    fresh: bool
    positions: dict[str, SegmentPosition]
    """Positions of the pointers that moved; in a fresh step, of all."""
    bounds: list[Bounds]
    rows: int
    files: dict[str, str] = {}
    """Files of rows: name → SHA-256."""
    check: str = ""

    @property
    def first(self) -> int:
        """Number of the first step that this one stands for."""
        return self.number

    def ends(self) -> dict[str, list[SegmentPosition]]:
        """For each pointer that moved, where these steps have ended."""
        return {pointer: [position] for pointer, position in self.positions.items()}


class MergedStep(StepMeta, frozen=True, kw_only=True):
    """Small steps merged into one. The originals stay for a while, for readers that have begun to read them, but no longer
    count."""

    since: int
    passed: dict[str, list[SegmentPosition]]

    @property
    def first(self) -> int:
        return self.since

    def ends(self) -> dict[str, list[SegmentPosition]]:
        return self.passed


def meta_file(step: Path) -> Path:
    merged = step / MERGED
    return merged if merged.exists() else step / META


def read_meta(step: Path) -> StepMeta:
    file = meta_file(step)
    return msgspec.json.decode(file.read_bytes(), type=MergedStep if file.name == MERGED else StepMeta)


def digests(folder: Path, known: Mapping[str, str] | None = None) -> dict[str, str]:
    """Digests of the files of rows; empty if one cannot be read. Files with a known digest are not read."""
    found = dict(known or {})
    for path in sorted(folder.glob("*.parquet")):
        if path.name in found:
            continue
        try:
            with path.open("rb") as file:
                found[path.name] = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError:
            found[path.name] = ""
    return found


def written(folder: Path) -> tuple[int, ...]:
    """Changes whenever a file of rows is rewritten."""
    try:
        stats = [path.stat() for path in [folder, *sorted(folder.glob("*.parquet"))]]
    except OSError:
        return ()
    return tuple(number for stat in stats for number in (stat.st_mtime_ns, stat.st_size))


def count_rows(folder: Path) -> int:
    """From the files' footers; -1 if one cannot be read."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return sum(pq.ParquetFile(file).metadata.num_rows for file in folder.glob("*.parquet"))
    except (OSError, pa.ArrowException):
        return -1


def write_synced(path: Path, content: bytes) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def check_of(meta: StepMeta) -> str:
    return hashlib.sha256(msgspec.json.encode(msgspec.structs.replace(meta, check=""), order="deterministic")).hexdigest()
