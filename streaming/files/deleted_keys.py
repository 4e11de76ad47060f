"""The locations that a run deletes, kept beside the root's claim for thirty days, so that `undo` can bring the files back.

They are written before the first deletion: a run that dies has named too many files, never too few.
"""

from __future__ import annotations

import gzip
import io
import itertools
import re
from collections.abc import Collection, Iterable, Iterator

import msgspec

from headwater.persistence.clock import MICROS
from headwater.schemas.errors import InvalidInput, MalformedMetadata
from headwater.streaming.files.kinds import OWN_FOLDER, FileKind, FileRef
from headwater.streaming.files.operations import FileOperations
from headwater.streaming.files.stores.storages import Storages

KEYS_NAME = "deleted-"
KEYS_PER_PART = 100_000
PART_BYTES_MAX = 256 * 1024 * 1024
KEPT_SECONDS = 30 * 24 * 3_600
LISTS_KEPT_SECONDS = 24 * 3_600
_RUN = re.compile(r"[A-Za-z0-9_.:-]{1,100}")


Key = str | tuple[str, int]
"""A location, perhaps with its size."""


def keep_keys(storages: Storages, root: str, run: str, keys: Iterable[Key], *, part: str = "0") -> list[str]:
    """`part` distinguishes several lists of one run and root. Returns where they were written."""
    rest, written = iter(keys), list[str]()
    for number in itertools.count():
        lines = b"\n".join(msgspec.json.encode(key) for key in itertools.islice(rest, KEYS_PER_PART))
        if not lines:
            return written
        location = f"{root}{OWN_FOLDER}{KEYS_NAME}{run}-{part}-{number}.jsonl.gz"
        storages.of(location).write(location, gzip.compress(lines, mtime=0))
        written.append(location)
    raise AssertionError("unreachable")


def kept_keys(operations: FileOperations, root: str, run: str) -> Iterator[str]:
    """What that run has deleted below this root, or was about to delete."""
    if not _RUN.fullmatch(run):
        raise InvalidInput(f"{run[:200]!r} is not the id of a run.", field="RUN", remedy="Look with `headwater maintain runs`.")
    beginning = f"{root}{OWN_FOLDER}{KEYS_NAME}{run}-"
    for file in operations.find(f"{root}{OWN_FOLDER}"):
        if file.location.startswith(beginning):
            yield from (key if isinstance(key, str) else key[0] for key in keys_in(operations.storages, file.location))


def keys_in(storages: Storages, location: str) -> Iterator[Key]:
    """The keys of one list."""
    packed = storages.read(location, PART_BYTES_MAX)
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(packed)) as lines:
            for line in lines:
                yield msgspec.json.decode(line, type=Key)
    except (OSError, EOFError, msgspec.DecodeError) as error:
        raise MalformedMetadata(f"{location[:200]} is damaged: {error}.", field="RUN") from None


def drop_old_records(
    operations: FileOperations, root: str, list_names: Collection[str], at: int, *, needed: Collection[str] = frozenset()
) -> None:
    """Deletes keys older than thirty days, and lists older than a day unless they begin with something `needed`. `at` is the
    time by the storage's clock."""
    ages = {KEYS_NAME: KEPT_SECONDS} | dict.fromkeys(list_names, LISTS_KEPT_SECONDS)
    for file in list(operations.find(f"{root}{OWN_FOLDER}")):
        name = file.location.removeprefix(f"{root}{OWN_FOLDER}")
        seconds = next((age for beginning, age in ages.items() if name.startswith(beginning)), None)
        if seconds is None or file.modified is None or file.location.startswith(tuple(needed)):
            continue
        if file.modified < at - seconds * MICROS:
            operations.purge([FileRef(file.location, FileKind.UNKNOWN)])
