"""The interface to the storage of files: list, look, read, write small files, delete in batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import msgspec

from headwater.streaming.files.kinds import FoundFile


class Deleted(msgspec.Struct, frozen=True):
    """The result of one batch. A batch that failed raises instead, and says nothing about single files."""

    purged: int
    """Confirmed by the storage."""
    missing: int = 0
    """Not there any more; a storage that does not report this counts them as purged."""


class ObjectStore(Protocol):
    """The storage of one scheme and authority. Thread-safe. Locations are whole URIs, spelled as the caller has them."""

    batch_max: int
    """How many files one request can delete."""

    def list(self, prefix: str) -> Iterator[list[FoundFile]]:
        """All files below a folder, page by page.

        ⚠ Raises if a page cannot be read or a key cannot be represented: a listing that ends without an error is complete.
        """

    def folders(self, prefix: str) -> Sequence[str]:
        """Names of the folders directly below one, sorted; empty if it does not exist."""

    def files(self, prefix: str) -> Sequence[FoundFile]:
        """The files directly in a folder, without those in its subfolders."""

    def head(self, location: str) -> FoundFile | None:
        """None if it does not exist; an error if that is unknown."""

    def read(self, location: str, bytes_max: int) -> bytes:
        """⚠ The size is checked before reading. `FileMissing`, `RequestTooLarge` or `StoreUnavailable`."""

    def write(self, location: str, content: bytes) -> FoundFile:
        """Replace a small file; returns it as the storage shows it, with the storage's own time."""

    def delete(self, locations: Sequence[str]) -> Deleted:
        """All of them in one request if the storage can, without retries: those are up to the caller."""
