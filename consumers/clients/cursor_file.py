"""Keeps a cursor in a file that is replaced atomically, so that a crash leaves the old cursor or the new one."""

from __future__ import annotations

from pathlib import Path

from headwater.consumers.durable_files import replaced_file
from headwater.schemas.errors import InvalidInput


class CursorFile:
    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> str | None:
        """None if there is no file. ⚠ An empty file is not a first run: starting over would skip or repeat silently."""
        try:
            cursor = self._path.read_text().strip()
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidInput(f"{self._path} cannot be read: {error}.", field="cursor_file") from error
        if not cursor:
            raise InvalidInput(
                f"{self._path} is empty.", field="cursor_file", remedy="Put the cursor back, or remove the file to begin again."
            )
        return cursor

    def write(self, cursor: str) -> None:
        """On disk when this returns."""
        with replaced_file(self._path) as file:
            file.write(cursor.encode() + b"\n")
