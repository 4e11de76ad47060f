"""Lists, reads and atomically writes small files wherever Spark can write."""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING, Any

from headwater.schemas.errors import Conflict

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class HadoopFiles:
    """Uses the driver's JVM, so that a path means the same here as in `DataFrame.write`."""

    def __init__(self, spark: SparkSession, root: str) -> None:
        self.root = root.rstrip("/")
        self._jvm: Any = spark._jvm
        self._conf = spark._jsc.hadoopConfiguration()
        self._files = self._path("").getFileSystem(self._conf)

    def at(self, name: str) -> str:
        return f"{self.root}/{name}" if name else self.root

    def names(self, folder: str) -> list[str]:
        """The contents of a sub-folder, sorted; empty if it does not exist."""
        path = self._path(folder)
        if not self._files.exists(path):
            return []
        return sorted(status.getPath().getName() for status in self._files.listStatus(path))

    def read(self, name: str) -> bytes:
        stream = self._files.open(self._path(name))
        try:
            return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
        finally:
            stream.close()

    def write_new(self, name: str, content: bytes) -> None:
        """The file appears complete under its name, or not at all; `Conflict` if another writer was first."""
        # ⚠ A name of its own: of two processes that write the same file, neither may rename what the other is writing.
        unfinished = self._path(f"{name}.unfinished-{secrets.token_hex(4)}")
        stream = self._files.create(unfinished, True)
        try:
            stream.write(content)
        finally:
            stream.close()
        if self._files.exists(self._path(name)) or not self._files.rename(unfinished, self._path(name)):
            self._files.delete(unfinished, False)
            raise Conflict(f"{self.at(name)} was written by another process.", remedy="Let one process write at a time.")

    def seconds_since_written(self, name: str) -> float:
        """Time since the newest file in a folder was written; since the folder was created if it has none."""
        times = []
        files = self._files.listFiles(self._path(name), True)
        while files.hasNext():
            times.append(files.next().getModificationTime())
        newest_millis = max(times, default=0) or self._files.getFileStatus(self._path(name)).getModificationTime()
        return time.time() - float(newest_millis) / 1_000

    def delete(self, name: str) -> None:
        self._files.delete(self._path(name), True)

    def _path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self.at(name))
