"""As much of a Spark session as the archive needs: batches of the log, rows in memory, files that all see."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import msgspec

from headwater.persistence.log.log_entry import change_of
from headwater.persistence.reading.pointer_log import PointerLog
from headwater.persistence.store import RealmKernel
from headwater.schemas.change import Change
from headwater.schemas.cursor import Position
from headwater.schemas.errors import Conflict, PointerNotFound
from headwater.streaming.sources.linked_batches import PointerBatch
from headwater.streaming.sources.log_offsets import LogOffset, OffsetPosition, offset_of_text

if TYPE_CHECKING:
    from tests.simulation.world.environment import Environment


class StoredFile(msgspec.Struct):
    content: Any
    written_at: int


class Files:
    """The file system: one dictionary for all."""

    def __init__(self) -> None:
        self.by_path: dict[str, StoredFile] = {}
        self.on_change: Callable[[], None] = lambda: None

    def under(self, path: str) -> list[str]:
        return [name for name in self.by_path if name == path or name.startswith(f"{path}/")]


class Frame:
    """A batch of Changes."""

    def __init__(self, spark: FakeSpark, realm: str, changes: list[Change]) -> None:
        self.sparkSession = spark
        self.realm = realm
        self.changes = changes

    def persist(self) -> Frame:
        return self

    def unpersist(self) -> None: ...

    @property
    def write(self) -> Frame:
        return self

    def parquet(self, path: str) -> None:
        """File by file, as tasks do."""
        for number, change in enumerate(self.changes):
            self.sparkSession.env.scheduler.step(f"file {path[-12:]}/{number}")
            self.sparkSession.put(f"{path}/{number:05d}.parquet", change)


class FakeSpark:
    def __init__(self, env: Environment, kernel: RealmKernel) -> None:
        self.env = env
        self.kernel = kernel
        self.files: Files = env.shared.setdefault("files", Files())
        self.readStream = self
        self.options_: dict[str, str] = {}
        self.previous: dict[str, str] = env.shared.setdefault("previous", {})
        """By entry id: the id of the entry before it."""
        self.batch: Callable[[Frame, int], None] = lambda frame, number: None

    def put(self, path: str, content: Any) -> None:
        self.files.by_path[path] = StoredFile(content, self.env.scheduler.now)
        self.files.on_change()

    # ── a stream of the log ─────────────────────────────────────────────────────────────────────────────────

    def format(self, name: str) -> FakeSpark:
        return self

    def options(self, **options: str) -> FakeSpark:
        self.options_ = options
        return self

    def load(self) -> FakeSpark:
        return self

    @property
    def writeStream(self) -> FakeSpark:  # noqa: N802 - Spark's name
        return self

    def foreachBatch(self, batch: Callable[[Frame, int], None]) -> FakeSpark:  # noqa: N802 - Spark's name
        self.batch = batch
        return self

    def option(self, name: str, value: str) -> FakeSpark:
        return self

    def batches(self) -> Iterator[Frame]:
        """Everything behind `after`, of all pointers, up to the heads of now."""
        after = self.options_["after"]
        position = LogOffset(self.kernel.realm, {}) if after == "earliest" else offset_of_text(after)
        found: list[Change] = []
        for name in self.kernel.store.backend.list_names(self.kernel.realm, prefix="cat/"):
            found += self._behind(name, position.pointers.get(name, OffsetPosition(0)))
        size = int(self.options_.get("changes_per_batch", "3"))
        for first in range(0, len(found), size):
            yield Frame(self, self.kernel.realm, found[first : first + size])

    def _behind(self, pointer: str, after: OffsetPosition) -> list[Change]:
        log = PointerLog(self.kernel, pointer)
        try:
            head = log.head()
        except PointerNotFound:
            return []
        at, found = after.seq or head.row.floor - 1, list[Change]()
        while at < head.seq:
            seen = Position(at, bytes.fromhex(after.entry_id) if at == after.seq else b"")
            entries = log.page(seen, 50, head).entries
            found += [change_of(entry, self.kernel.realm_name) for entry in entries]
            self.previous |= {entry.entry_id.hex(): entry.entry.previous.hex() for entry in entries}
            at = entries[-1].entry.seq
        return found


def run_until_caught_up(writer: FakeSpark, **_: object) -> int:
    rows = 0
    for number, frame in enumerate(writer.batches()):
        writer.batch(frame, number)
        rows += len(frame.changes)
    return rows


def pointer_batches(batch: Frame) -> list[PointerBatch]:
    """What the product's query says."""
    by_pointer: dict[str, list[Change]] = {}
    for change in sorted(batch.changes, key=lambda change: change.seq):
        by_pointer.setdefault(change.pointer, []).append(change)
    previous, found = batch.sparkSession.previous, []
    for pointer, changes in by_pointer.items():
        first, last = changes[0], changes[-1]
        linked = all(previous[two.entry_id] == one.entry_id for one, two in pairwise(changes))
        is_linked = linked and len(changes) == last.seq - first.seq + 1
        found.append(
            PointerBatch(batch.realm, pointer, first.seq, last.seq, last.entry_id, previous[first.entry_id], is_linked)
        )
    return found


def behind(batch: Frame, archived: LogOffset) -> Frame:
    new = [change for change in batch.changes if change.seq > archived.seq_of(change.pointer)]
    return Frame(batch.sparkSession, batch.realm, new)


class SimulatedFiles:
    """In the place of `HadoopFiles`."""

    def __init__(self, spark: FakeSpark, root: str) -> None:
        self.root = root
        self._spark = spark
        self._files = spark.files

    def at(self, name: str) -> str:
        return f"{self.root}/{name}" if name else self.root

    def names(self, folder: str) -> list[str]:
        self._step(f"list {folder}")
        prefix = self.at(folder) + "/"
        return sorted({path.removeprefix(prefix).split("/")[0] for path in self._files.by_path if path.startswith(prefix)})

    def read(self, name: str) -> bytes:
        self._step(f"read {name}")
        content: bytes = self._files.by_path[self.at(name)].content
        return content

    def write_new(self, name: str, content: bytes) -> None:
        self._step(f"write {name}")
        if self.at(name) in self._files.by_path:
            raise Conflict(f"{name} was written by another process.")
        self._spark.put(self.at(name), content)

    def delete(self, name: str) -> None:
        self._step(f"delete {name}")
        for path in self._files.under(self.at(name)):
            del self._files.by_path[path]
        self._files.on_change()

    def seconds_since_written(self, name: str) -> float:
        times = [self._files.by_path[path].written_at for path in self._files.under(self.at(name))]
        return (self._spark.env.scheduler.now - max(times, default=0)) / 1e6

    def _step(self, what: str) -> None:
        self._spark.env.scheduler.step(f"file {what}")
