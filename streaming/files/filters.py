"""Selects found files by kind, age, size, path and prefix; filters combine with `&`, `|` and `~`."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Collection

from headwater.streaming.files.kinds import FileKind, FoundFile, kind_by_name


class FileFilter:
    """A predicate over found files."""

    def __init__(self, test: Callable[[FoundFile], bool], text: str) -> None:
        self._test = test
        self._text = text

    def __call__(self, file: FoundFile) -> bool:
        return self._test(file)

    def __and__(self, other: FileFilter) -> FileFilter:
        return FileFilter(lambda file: self(file) and other(file), f"({self} and {other})")

    def __or__(self, other: FileFilter) -> FileFilter:
        return FileFilter(lambda file: self(file) or other(file), f"({self} or {other})")

    def __invert__(self) -> FileFilter:
        return FileFilter(lambda file: not self(file), f"not {self}")

    def __str__(self) -> str:
        return self._text


EVERY_FILE = FileFilter(lambda _: True, "every file")


def of_kind(*kinds: FileKind) -> FileFilter:
    return FileFilter(lambda file: kind_by_name(file.location) in kinds, f"kind in {', '.join(kinds)}")


def modified_before(micros: int) -> FileFilter:
    """⚠ A file without a time is never old enough."""
    return FileFilter(lambda file: file.modified is not None and file.modified < micros, f"modified before {micros}")


def matching(pattern: str) -> FileFilter:
    """A shell pattern over the whole location: `*` crosses slashes."""
    matches = re.compile(fnmatch.translate(pattern)).match
    return FileFilter(lambda file: matches(file.location) is not None, f"like {pattern}")


def below(prefix: str) -> FileFilter:
    """⚠ Whole segments: `…/t1` does not select `…/t10/x`."""
    folder = prefix.rstrip("/") + "/"
    return FileFilter(lambda file: file.location.startswith(folder), f"below {folder}")


def at(locations: Collection[str]) -> FileFilter:
    return FileFilter(lambda file: file.location in locations, f"one of {len(locations)} locations")
