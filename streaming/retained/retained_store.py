"""Stores the steps of a retained set in a folder, each atomically: the set's position and where its rows are.

A step is a folder of Parquet rows with a small file beside them that says up to which entry of each pointer it goes and which
segments begin in it. It is written under another name and renamed: a step that a crash cut short is not there. A *fresh* step
(seeded by walking, or compacted) replaces all before it. ⚠ What does not add up is `RetainedCorrupt`, and is never trusted: a
digest of each file of rows is kept, so that a row that was altered or lost is noticed before anything is deleted by the set.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from headwater.schemas.errors import RetainedCorrupt, RetainedMoved
from headwater.streaming.reachability.segments import Bounds, SegmentPosition

META = "step.json"
ROWS = "rows"
_STEP = re.compile(r"step-(\d{9})")
_UNFINISHED = re.compile(r"unfinished-(\d{9})")


class StepMeta(msgspec.Struct, frozen=True, kw_only=True):
    number: int
    realm: str
    fresh: bool
    positions: dict[str, SegmentPosition]
    """Of the pointers that moved; of all in a fresh step."""
    bounds: list[Bounds]
    rows: int
    files: dict[str, str] = {}
    """Of rows: name → SHA-256."""
    check: str = ""


class RetainedState(msgspec.Struct, frozen=True, kw_only=True):
    realm: str
    number: int = 0
    positions: dict[str, SegmentPosition] = {}
    passed: dict[str, list[SegmentPosition]] = {}
    """Of each pointer, every position that a step has ended with, oldest first."""
    bounds: list[Bounds] = []
    rows: int = 0
    folders: list[str] = []
    """Of Parquet files, all of which together are the set."""

    def current_segment(self) -> dict[str, int]:
        """Pointer → where its newest segment begins."""
        newest: dict[str, int] = {}
        for bound in self.bounds:
            newest[bound.pointer] = max(bound.start, newest.get(bound.pointer, 0))
        return newest


class RetainedStore:
    """Of one realm instance, in a folder that all executors can reach."""

    def __init__(self, folder: str | Path, realm: str) -> None:
        self.realm = realm
        self.folder = Path(folder).absolute() / re.sub(r"[^A-Za-z0-9._#-]", "_", realm)
        self._checked: dict[Path, tuple[tuple[int, int, tuple[int, ...]], StepMeta]] = {}
        """Steps that this object has read and found right: a long stream would read all of them again at each batch."""
        self._latest: tuple[list[str], RetainedState] | None = None
        """The names of all steps when this object loaded or wrote the newest one, and the state since then."""

    def latest(self) -> RetainedState | None:
        """What this object knows, as long as no other step has come or gone; else as `load`. For a stream, whose steps are
        many: it looks at names alone. ⚠ What deletes by the set must `load` it, which checks every file."""
        names, known = self._latest or ([], None)
        return known if known and names == [path.name for path in self._steps()] else self.load()

    def load(self) -> RetainedState | None:
        """None before the first step."""
        steps = self._steps()
        metas: list[tuple[Path, StepMeta]] = []
        for path in reversed(steps):  # from the newest back to the fresh one: what is older counts no more
            metas.append((path, self._read(path)))
            if metas[-1][1].fresh:
                break
        if not metas:
            return None
        metas.reverse()
        if not metas[0][1].fresh:
            raise self._corrupt("its first step is missing")
        state = self._folded(None, metas)
        self._latest = ([path.name for path in steps], state)
        return state

    def append(
        self,
        before: RetainedState | None,
        positions: dict[str, SegmentPosition],
        bounds: Iterable[Bounds],
        write_rows: Callable[[str], int],
        *,
        fresh: bool = False,
    ) -> RetainedState:
        """`write_rows` fills the folder that it is given, and says with how many rows."""
        number = 1 if before is None else before.number + 1
        # ⚠ A name of its own: of two processes that write the same step, neither may clear away what the other has written.
        unfinished = self.folder / f"unfinished-{number:09d}-{secrets.token_hex(4)}"
        unfinished.mkdir(parents=True)
        try:
            rows = write_rows(str(unfinished / ROWS))
            meta = StepMeta(
                number=number,
                realm=self.realm,
                fresh=fresh,
                positions=positions,
                bounds=list(bounds),
                rows=rows,
                files=digests(unfinished / ROWS),
            )
            _write_synced(unfinished / META, msgspec.json.encode(msgspec.structs.replace(meta, check=_check(meta))))
            unfinished.rename(self._path(number))
        except Exception as error:
            shutil.rmtree(unfinished, ignore_errors=True)
            if self.next_number() < number:
                raise
            raise RetainedMoved(
                f"another process has written step {number} of the retained set of {self.realm!r}.",
                field="retained",
                remedy="Continue from what it wrote.",
            ) from error
        self._forget_unfinished(number)
        if fresh:
            self._forget_before(number)
        state = self._folded(None if fresh else before, [(self._path(number), meta)])
        self._latest = ([path.name for path in self._steps()], state)
        return state

    def clear(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def next_number(self) -> int:
        """The newest that is there, readable or not."""
        return max((int(_STEP.fullmatch(path.name).group(1)) for path in self._steps()), default=0)  # type: ignore[union-attr]

    # ── files ───────────────────────────────────────────────────────────────────────────────────────────────

    def _folded(self, before: RetainedState | None, metas: list[tuple[Path, StepMeta]]) -> RetainedState:
        """`before` is left as it is."""
        known_before = before or RetainedState(realm=self.realm, number=metas[0][1].number - 1)
        positions = dict(known_before.positions)
        passed = dict(known_before.passed)
        grown: dict[str, list[SegmentPosition]] = {}
        bounds = list(known_before.bounds)
        for number, (_, meta) in enumerate(metas, known_before.number + 1):
            if meta.number != number:
                raise self._corrupt(f"step {number} is missing")
            for pointer, position in meta.positions.items():
                known = positions.get(pointer)
                if known is not None and position.seq < known.seq:
                    raise self._corrupt(f"{pointer} goes back from {known.seq} to {position.seq}")
                positions[pointer] = position
                if pointer not in grown:
                    passed[pointer] = grown[pointer] = list(passed.get(pointer, ()))
                grown[pointer].append(position)
            bounds += meta.bounds
        return RetainedState(
            realm=self.realm,
            number=metas[-1][1].number,
            positions=positions,
            passed=passed,
            bounds=bounds,
            rows=known_before.rows + sum(meta.rows for _, meta in metas),
            folders=[*known_before.folders, *(str(path / ROWS) for path, meta in metas if meta.rows)],
        )

    def _read(self, path: Path) -> StepMeta:
        try:
            found = (path / META).stat()
        except OSError as error:
            raise self._corrupt(f"{path.name} cannot be read: {error}") from error
        written = (found.st_mtime_ns, found.st_size, _written(path / ROWS))
        if path not in self._checked or self._checked[path][0] != written:
            self._checked[path] = (written, self._read_and_check(path))
        return self._checked[path][1]

    def _read_and_check(self, path: Path) -> StepMeta:
        try:
            meta = msgspec.json.decode((path / META).read_bytes(), type=StepMeta)
        except (OSError, msgspec.DecodeError) as error:
            raise self._corrupt(f"{path.name} cannot be read: {error}") from error
        if meta.check != _check(meta):
            raise self._corrupt(f"{path.name} was altered")
        if meta.realm != self.realm:
            raise self._corrupt(f"{path.name} is of realm {meta.realm!r}")
        if digests(path / ROWS) != meta.files:
            raise self._corrupt(f"the rows of {path.name} are not those that were written")
        return meta

    def _steps(self) -> list[Path]:
        if not self.folder.is_dir():
            return []
        return sorted(path for path in self.folder.iterdir() if _STEP.fullmatch(path.name))

    def _path(self, number: int) -> Path:
        return self.folder / f"step-{number:09d}"

    def _forget_before(self, number: int) -> None:
        for path in self._steps():
            if path.name < self._path(number).name:
                shutil.rmtree(path, ignore_errors=True)

    def _forget_unfinished(self, number: int) -> None:
        """What a crash has left, or another process that comes too late for its step."""
        for path in self.folder.iterdir():
            found = _UNFINISHED.match(path.name)
            if found is not None and int(found.group(1)) <= number:
                shutil.rmtree(path, ignore_errors=True)

    def _corrupt(self, why: str) -> RetainedCorrupt:
        return RetainedCorrupt(
            f"the retained set of {self.realm!r} cannot be used: {why}.",
            field="retained",
            remedy="Seed it again by walking: `headwater maintain retained --reseed`.",
        )


def digests(folder: Path) -> dict[str, str]:
    """Of each file of rows; nothing where one cannot be read."""
    found = {}
    for path in sorted(folder.glob("*.parquet")):
        try:
            with path.open("rb") as file:
                found[path.name] = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError:
            found[path.name] = ""
    return found


def _written(folder: Path) -> tuple[int, ...]:
    """What changes when a file of rows is written again."""
    try:
        stats = [path.stat() for path in [folder, *sorted(folder.glob("*.parquet"))]]
    except OSError:
        return ()
    return tuple(number for stat in stats for number in (stat.st_mtime_ns, stat.st_size))


def count_rows(folder: Path) -> int:
    """From the files' footers; -1 where one cannot be read."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return sum(pq.ParquetFile(file).metadata.num_rows for file in folder.glob("*.parquet"))
    except (OSError, pa.ArrowException):
        return -1


def _write_synced(path: Path, content: bytes) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _check(meta: StepMeta) -> str:
    return hashlib.sha256(msgspec.json.encode(msgspec.structs.replace(meta, check=""), order="deterministic")).hexdigest()
