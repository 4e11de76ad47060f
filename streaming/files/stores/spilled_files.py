"""Files that may be deleted, on local disk: memory holds only an eight-byte fingerprint and two marks per file."""

from __future__ import annotations

import struct
import tempfile
from array import array
from collections.abc import Callable, Collection, Iterator
from typing import IO, TYPE_CHECKING

import msgspec

from headwater.producer.content.folding import fold
from headwater.streaming.files.kinds import FoundFile

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_LENGTH = struct.Struct("<I")


class SpilledFiles:
    """In the order in which they were added, which does not change."""

    def __init__(self) -> None:
        self._file: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `close`
        self._ids = array("q")
        self._off = bytearray()
        """1 for a file that was taken off."""
        self.bytes = 0

    def add(self, file: FoundFile, found: int) -> None:
        packed = msgspec.msgpack.encode((file.location, file.size, file.modified))
        self._file.write(_LENGTH.pack(len(packed)) + packed)
        self._ids.append(found)
        self._off.append(0)
        self.bytes += file.size

    def spare(self, folders: Collection[str]) -> int:
        prefixes = tuple(folders)
        return self.take_off(lambda file, _: fold(file.location).startswith(prefixes))

    def take_off(self, is_off: Callable[[FoundFile, int], bool]) -> int:
        """How many were taken off."""
        taken = 0
        for number, file in self._numbered():
            if is_off(file, self._ids[number]):
                self._off[number] = 1
                self.bytes -= file.size
                taken += 1
        return taken

    def keep_only(self, chosen: NDArray[np.bool_]) -> None:
        """Indexed like `all_ids`."""
        import numpy as np

        np.frombuffer(self._off, np.uint8)[~chosen] = 1
        self.bytes = sum(file.size for file in self)

    def all_ids(self) -> NDArray[np.int64]:
        """Includes those that were taken off."""
        import numpy as np

        return np.frombuffer(self._ids, np.int64)

    def ids(self) -> NDArray[np.int64]:
        return self.all_ids()[self.going()]

    def going(self) -> NDArray[np.bool_]:
        """Indexed like `all_ids`; those that were not taken off."""
        import numpy as np

        going: NDArray[np.bool_] = np.frombuffer(self._off, np.uint8) == 0
        return going

    def __len__(self) -> int:
        return self._off.count(0)

    def __iter__(self) -> Iterator[FoundFile]:
        return (file for _, file in self._numbered())

    def close(self) -> None:
        self._file.close()

    def _numbered(self) -> Iterator[tuple[int, FoundFile]]:
        self._file.seek(0)
        for number in range(len(self._ids)):
            packed = self._file.read(_LENGTH.unpack(self._file.read(_LENGTH.size))[0])
            if not self._off[number]:
                location, size, modified = msgspec.msgpack.decode(packed, type=tuple[str, int, int | None])
                yield number, FoundFile(location, size, modified)
        self._file.seek(0, 2)
