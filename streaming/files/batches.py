"""Groups files into batches for bulk deletion: of one storage, no file twice, and no file together with one that it names.

⚠ A bulk deletion has no order. If a manifest were deleted in the same request as its data files and the process died, data
files could be left that nothing names any more. So a container waits until the batches with the files that it names are done.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from headwater.streaming.files.kinds import FileRef
from headwater.streaming.files.stores.object_store import ObjectStore

REMEMBERED_FILES = 100_000
"""⚠ Only a window: a file that reappears later is deleted a second time, which does no harm."""

Stored = tuple[ObjectStore, FileRef]


def distinct(files: Iterable[FileRef]) -> Iterator[FileRef]:
    """Drops files that appeared shortly before."""
    seen: dict[str, None] = {}
    for file in files:
        if file.location in seen:
            continue
        seen[file.location] = None
        if len(seen) > REMEMBERED_FILES:
            del seen[next(iter(seen))]
        yield file


def batches(files: Iterable[Stored], size: int) -> Iterator[tuple[ObjectStore, list[FileRef]]]:
    """⚠ The caller finishes each batch before it asks for the next one."""
    queue = _Queue()
    for store, file in files:
        queue.add(store, file)
        while (ready := queue.full(size)) is not None:
            yield ready
            queue.finished(ready[1])
    while (ready := queue.rest(size)) is not None:
        yield ready
        queue.finished(ready[1])


class _Queue:
    """Waiting files by storage, and containers that wait for files."""

    def __init__(self) -> None:
        self._ready: dict[int, tuple[ObjectStore, list[FileRef]]] = {}
        self._held: list[Stored] = []
        self._unfinished: Counter[str] = Counter()
        """Container → how many of the files that it names are not deleted yet."""

    def add(self, store: ObjectStore, file: FileRef) -> None:
        self._unfinished[file.referrer] += 1
        self._place(store, file)

    def finished(self, files: list[FileRef]) -> None:
        for file in files:
            self._unfinished[file.referrer] -= 1
            if not self._unfinished[file.referrer]:
                del self._unfinished[file.referrer]
        held, self._held = self._held, []
        for store, file in held:
            self._place(store, file)

    def full(self, size: int) -> tuple[ObjectStore, list[FileRef]] | None:
        return next((self._cut(key, size) for key in self._ready if len(self._ready[key][1]) >= self._most(key, size)), None)

    def rest(self, size: int) -> tuple[ObjectStore, list[FileRef]] | None:
        return next((self._cut(key, size) for key in self._ready), None)

    def _place(self, store: ObjectStore, file: FileRef) -> None:
        if self._unfinished[file.location]:
            self._held.append((store, file))
        else:
            self._ready.setdefault(id(store), (store, []))[1].append(file)

    def _most(self, key: int, size: int) -> int:
        return min(size, self._ready[key][0].batch_max)

    def _cut(self, key: int, size: int) -> tuple[ObjectStore, list[FileRef]]:
        most = self._most(key, size)
        store, files = self._ready.pop(key)
        if len(files) > most:
            self._ready[key] = (store, files[most:])
        return store, files[:most]
