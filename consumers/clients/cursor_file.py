"""A cursor enters a file and leaves it after any crash as it was written last: replaced as a whole, never half of it."""

from __future__ import annotations

import os
from pathlib import Path

from headwater.schemas.errors import InvalidInput


class CursorFile:
    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> str | None:
        try:
            return self._path.read_text().strip() or None
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidInput(f"{self._path} cannot be read: {error}.", field="cursor_file") from error

    def write(self, cursor: str) -> None:
        """On disk when this returns."""
        new = self._path.with_name(self._path.name + ".new")
        with new.open("w") as file:
            file.write(cursor + "\n")
            file.flush()
            os.fsync(file.fileno())
        new.replace(self._path)
