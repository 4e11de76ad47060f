"""Stores the steps of a retained set in a folder, each atomically: the set's position and where its rows are.

A step is a folder of Parquet rows with a small file beside them that says up to which entry of each pointer it goes and which
segments begin in it. It is written under another name and renamed: a step that a crash cut short does not exist. A *fresh* step
(seeded by walking, or compacted) replaces all before it, a *merged* one those that it was merged from.

⚠ Anything inconsistent is `RetainedCorrupt`, and is never trusted: a digest of each file of rows is kept, so that an altered or
lost row is noticed before anything is deleted by the set.
"""

from __future__ import annotations

import re
import secrets
import shutil
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from headwater.schemas.errors import MaintenanceRefused, RetainedCorrupt, RetainedMoved
from headwater.streaming.reachability.segments import Bounds, SegmentPosition
from headwater.streaming.retained.step_files import (
    COMPACTING,
    MERGED,
    META,
    ROWS,
    MergedStep,
    StepMeta,
    check_of,
    digests,
    meta_file,
    read_meta,
    write_synced,
    written,
)

REPLACED_SECONDS = 900.0
"""How long steps stay after they were merged. Readers of a set finish reading its files well before."""
_STEP = re.compile(r"step-(\d{9})")
_UNFINISHED = re.compile(r"unfinished-(\d{9})")


class RetainedState(msgspec.Struct, frozen=True, kw_only=True):
    realm: str
    number: int = 0
    positions: dict[str, SegmentPosition] = {}
    passed: dict[str, list[SegmentPosition]] = {}
    """For each pointer, every position at which a step has ended, oldest first."""
    bounds: list[Bounds] = []
    rows: int = 0
    folders: list[str] = []
    """Folders of Parquet files that together are the set."""

    def current_segment(self) -> dict[str, int]:
        """Pointer → where its newest segment begins."""
        newest: dict[str, int] = {}
        for bound in self.bounds:
            newest[bound.pointer] = max(bound.start, newest.get(bound.pointer, 0))
        return newest


class RetainedStore:
    """One per realm instance, in a folder that all executors can reach."""

    def __init__(self, folder: str | Path, realm: str) -> None:
        self.realm = realm
        self.folder = Path(folder).absolute() / re.sub(r"[^A-Za-z0-9._#-]", "_", realm)
        self._checked: dict[Path, tuple[tuple[int, int, tuple[int, ...]], StepMeta]] = {}
        """Steps that this object has read and verified: without it a long stream would read all of them again at each batch."""
        self.looked_at = 0
        """The step up to which small ones were looked for."""
        self._known: tuple[list[tuple[Path, StepMeta]], RetainedState] | None = None
        """The steps that were current last time, and their state."""

    def load(self) -> RetainedState | None:
        """None before the first step."""
        metas = self.live()
        if not metas:
            return None
        if not metas[0][1].fresh:
            raise self._corrupt("its first step is missing")
        if self._known is not None and self._known[0] == metas:
            return self._known[1]
        state = self._folded(None, metas)
        self._checked = {path: self._checked[path] for path, _ in metas}
        self._known = metas, state
        return state

    def live(self) -> list[tuple[Path, StepMeta]]:
        """The current steps, oldest first: from the newest back to the fresh one, without those that were merged."""
        metas: list[tuple[Path, StepMeta]] = []
        for path in reversed(self._steps()):
            if metas and _number(path) >= metas[-1][1].first:
                continue
            metas.append((path, self._read(path)))
            if metas[-1][1].fresh:
                break
        metas.reverse()
        return metas

    def append(
        self,
        before: RetainedState | None,
        positions: dict[str, SegmentPosition],
        bounds: Iterable[Bounds],
        write_rows: Callable[[str], int],
        *,
        fresh: bool = False,
    ) -> RetainedState:
        """`write_rows` fills the folder that it is given, and returns the number of rows."""
        number = 1 if before is None else before.number + 1
        made = StepMeta(number=number, realm=self.realm, fresh=fresh, positions=positions, bounds=[], rows=0)
        meta = self._put(made, bounds, write_rows, META)
        if fresh:
            self._forget_before(number)
        step = self._path(number), meta
        state = self._folded(None if fresh else before, [step])
        known, before_known = self._known or ([], None)
        self._known = None
        if fresh or before is before_known:
            self._known = [step] if fresh else [*known, step], state
        return state

    def merge(self, metas: Sequence[StepMeta], write_rows: Callable[[str], int]) -> RetainedState:
        """Merges the newest steps into one, whose rows are those of all of them."""
        ends: dict[str, list[SegmentPosition]] = {}
        for meta in metas:
            for pointer, positions in meta.ends().items():
                ends.setdefault(pointer, []).extend(positions)
        made = MergedStep(
            number=metas[-1].number + 1,
            realm=self.realm,
            fresh=False,
            positions={pointer: positions[-1] for pointer, positions in ends.items()},
            bounds=[],
            rows=0,
            since=metas[0].first,
            passed=ends,
        )
        self._put(made, [bound for meta in metas for bound in meta.bounds], write_rows, MERGED)
        self._forget_replaced()
        return self._written()

    def steps_after(self, number: int) -> list[tuple[Path, StepMeta]]:
        """Each as it was written, whether it was merged since or not; `RetainedMoved` if they do not continue that step."""
        found = [(path, self._read(path)) for path in self._steps() if _number(path) > number]
        if [meta.number for _, meta in found] != list(range(number + 1, number + 1 + len(found))) or any(
            meta.fresh for _, meta in found
        ):
            raise RetainedMoved(f"the retained set of {self.realm!r} was begun again after step {number}.", field="retained")
        return [(path, meta) for path, meta in found if not isinstance(meta, MergedStep)]

    def replace(self, made: MergedStep, write_rows: Callable[[str], int], files: Mapping[str, str]) -> RetainedState:
        """Writes a fresh step, which replaces all before it. `files` has the digests that are known already."""
        self._put(made, made.bounds, write_rows, MERGED, files)
        self._forget_before(made.number)
        return self._written()

    def _written(self) -> RetainedState:
        state = self.load()
        if state is None:
            raise self._corrupt("the step that was just written is not there")
        return state

    def _put(
        self,
        made: StepMeta,
        bounds: Iterable[Bounds],
        write_rows: Callable[[str], int],
        name: str,
        known: Mapping[str, str] | None = None,
    ) -> StepMeta:
        number = made.number
        # ⚠ A name of its own: of two processes that write the same step, neither may clear away what the other has written.
        unfinished = self.folder / f"unfinished-{number:09d}-{secrets.token_hex(4)}"
        try:
            unfinished.mkdir(parents=True)
            rows = write_rows(str(unfinished / ROWS))
            files = digests(unfinished / ROWS, known)
            meta = msgspec.structs.replace(made, bounds=list(bounds), rows=rows, files=files)  # bounds are known by now
            meta = msgspec.structs.replace(meta, check=check_of(meta))
            write_synced(unfinished / name, msgspec.json.encode(meta))
            unfinished.rename(self._path(number))
            self._checked[self._path(number)] = _seen(self._path(number)), meta
        except Exception as error:
            shutil.rmtree(unfinished, ignore_errors=True)
            if self.next_number() < number:
                if isinstance(error, OSError):
                    raise self._not_written(error) from error
                raise
            raise RetainedMoved(
                f"another process has written step {number} of the retained set of {self.realm!r}.",
                field="retained",
                remedy="Continue from what it wrote.",
            ) from error
        self._forget_unfinished(number)
        return meta

    def clear(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def next_number(self) -> int:
        """The newest step that exists, readable or not."""
        return max((_number(path) for path in self._steps()), default=0)

    # ── files ───────────────────────────────────────────────────────────────────────────────────────────────

    def _folded(self, before: RetainedState | None, metas: list[tuple[Path, StepMeta]]) -> RetainedState:
        """`before` is left unchanged."""
        known_before = before or RetainedState(realm=self.realm, number=metas[0][1].first - 1)
        number = known_before.number
        positions = dict(known_before.positions)
        passed = dict(known_before.passed)
        grown: dict[str, list[SegmentPosition]] = {}
        bounds = list(known_before.bounds)
        for _, meta in metas:
            if meta.first != number + 1:
                raise self._corrupt(f"step {number + 1} is missing")
            number = meta.number
            for pointer, ends in meta.ends().items():
                known = positions.get(pointer)
                if known is not None and ends[0].seq < known.seq:
                    raise self._corrupt(f"{pointer} goes back from {known.seq} to {ends[0].seq}")
                positions[pointer] = ends[-1]
                if pointer not in grown:
                    passed[pointer] = grown[pointer] = list(passed.get(pointer, ()))
                grown[pointer] += ends
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
            seen = _seen(path)
        except OSError as error:
            raise self._corrupt(f"{path.name} cannot be read: {error}") from error
        if path not in self._checked or self._checked[path][0] != seen:
            self._checked[path] = (seen, self._read_and_check(path))
        return self._checked[path][1]

    def _read_and_check(self, path: Path) -> StepMeta:
        try:
            meta = read_meta(path)
        except (OSError, msgspec.DecodeError) as error:
            raise self._corrupt(f"{path.name} cannot be read: {error}") from error
        if meta.check != check_of(meta):
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

    def _forget_replaced(self) -> None:
        """Removes steps that merged steps replaced a while ago, unless a smaller set is being made."""
        if any(self.folder.glob(f"{COMPACTING}*")):
            return
        gone: set[int] = set()
        for path, meta in self.live():
            if meta.first < meta.number and time.time() - path.stat().st_mtime > REPLACED_SECONDS:
                gone |= set(range(meta.first, meta.number))
        for path in self._steps():
            if _number(path) in gone:
                shutil.rmtree(path, ignore_errors=True)

    def _forget_unfinished(self, number: int) -> None:
        """Leftovers of a crash, or of another process that was too late with its step."""
        for path in self.folder.iterdir():
            found = _UNFINISHED.match(path.name)
            if found is not None and int(found.group(1)) <= number:
                shutil.rmtree(path, ignore_errors=True)

    def _not_written(self, error: OSError) -> MaintenanceRefused:
        return MaintenanceRefused(
            f"the retained set of {self.realm!r} cannot be written to {self.folder.parent}: {error.strerror or error}.",
            field="maintenance_dir",
            remedy="Free space there, or name a folder that can be written.",
        )

    def _corrupt(self, why: str) -> RetainedCorrupt:
        return RetainedCorrupt(
            f"the retained set of {self.realm!r} cannot be used: {why}.",
            field="retained",
            remedy="Seed it again by walking: `headwater maintain retained --reseed`.",
        )


def _seen(step: Path) -> tuple[int, int, tuple[int, ...]]:
    """Changes whenever a file of the step is rewritten."""
    found = meta_file(step).stat()
    return found.st_mtime_ns, found.st_size, written(step / ROWS)


def _number(step: Path) -> int:
    return int(step.name.removeprefix("step-"))
