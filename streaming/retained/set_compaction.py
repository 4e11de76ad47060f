"""Replaces a retained set by a smaller one of the same meaning, while a stream goes on adding to it.

The smaller rows are written beside the set, from its steps up to one moment. ⚠ Whoever changes the set must be kept away only
when they take its place: steps that were written meanwhile are taken over as they are, each with the positions at which it
ended, which no sweep has compared with the log yet.
"""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from headwater.schemas.errors import RetainedMoved
from headwater.streaming.reachability.segments import Bounds, SegmentPosition
from headwater.streaming.retained.retained_store import RetainedState, RetainedStore
from headwater.streaming.retained.step_files import COMPACTING, ROWS, MergedStep, StepMeta, digests


class Smaller(msgspec.Struct, frozen=True, kw_only=True):
    """What replaces the steps up to that of `before`."""

    before: RetainedState
    positions: dict[str, SegmentPosition]
    bounds: list[Bounds]
    folder: Path
    """Of its Parquet rows."""
    rows: int


@contextmanager
def compacting(store: RetainedStore) -> Iterator[Path]:
    """A folder to write rows to. While it exists, steps that were merged stay, since those after `before` are needed."""
    store.folder.mkdir(parents=True, exist_ok=True)
    for left in store.folder.glob(f"{COMPACTING}*"):  # of a process that was killed: one sweep runs at a time
        shutil.rmtree(left, ignore_errors=True)
    folder = store.folder / f"{COMPACTING}{secrets.token_hex(4)}"
    folder.mkdir()
    try:
        yield folder / ROWS
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def digests_of(smaller: Smaller) -> dict[str, str]:
    """Reads all rows, so it is done before anybody is kept away."""
    return digests(smaller.folder)


def put_in_place(store: RetainedStore, smaller: Smaller, files: Mapping[str, str]) -> RetainedState:
    """`RetainedMoved` if the set was begun again meanwhile; it is left as it is then."""
    later = store.steps_after(smaller.before.number)
    number = store.next_number() + 1
    ends = _ends(store, smaller, later)
    made = MergedStep(
        number=number,
        realm=store.realm,
        fresh=True,
        positions={pointer: positions[-1] for pointer, positions in ends.items()},
        bounds=[*smaller.bounds, *(bound for _, meta in later for bound in meta.bounds)],
        rows=0,
        since=number,
        passed=ends,
    )

    def take_over(folder: str) -> int:
        smaller.folder.rename(folder)
        for path, _ in later:
            for file in (path / ROWS).glob("*.parquet"):
                shutil.copyfile(file, Path(folder) / f"{path.name}-{file.name}")
        return smaller.rows + sum(meta.rows for _, meta in later)

    return store.replace(made, take_over, files)


def _ends(store: RetainedStore, smaller: Smaller, later: Sequence[tuple[Path, StepMeta]]) -> dict[str, list[SegmentPosition]]:
    ends = {pointer: [at] for pointer, at in smaller.positions.items()}
    for _, meta in later:
        for pointer, positions in meta.ends().items():
            if pointer in smaller.before.positions and pointer not in smaller.positions:
                # ⚠ What it had before was left out, e.g. of a branch that was made after the fence.
                raise RetainedMoved(f"{pointer} of {store.realm!r} goes on, and was left out of the smaller set.")
            first = smaller.positions[pointer].first if pointer in smaller.positions else 1
            ends.setdefault(pointer, []).extend(at._replace(first=max(at.first, first)) for at in positions)
    return ends
