"""One of the 256 ranges of the manifest cache, as Parquet files: what was read before, by key.

Any file may be missing, damaged or duplicated: what cannot be read is left out, and is read from the tables again.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple

from headwater.streaming.files.kinds import FoundFile

if TYPE_CHECKING:
    import pyarrow

RANGES = 256
FORMAT = 4
RANGE_BYTES_MAX = 1024 * 1024 * 1024
KEY_BYTES = 16


class Entry(NamedTuple):
    """What is known of one file that never changes."""

    payload: bytes
    digest: bytes
    used_day: int
    """Day of last use, in days since 1970."""
    stamp: bytes = b""
    """How a listing showed the file when its content was known to be this; empty if no listing did."""
    source: bytes = b""
    """Digest of the file's bytes; empty if whoever read the file did not say."""

    def is_whole(self, key: bytes) -> bool:
        return digest_of(key, self.payload) == self.digest


def entry_of(key: bytes, payload: bytes, day: int, stamp: bytes = b"", source: bytes = b"") -> Entry:
    return Entry(payload, digest_of(key, payload), day, stamp, source)


def source_of(content: bytes) -> bytes:
    return blake2b(content, digest_size=16).digest()


def digest_of(key: bytes, payload: bytes) -> bytes:
    """⚠ Covers the key: an entry that damage has moved to another file's row does not verify."""
    return blake2b(payload, digest_size=8, key=key).digest()


def stamp_of(file: FoundFile) -> bytes:
    """Changes if the file is rewritten, as far as its storage shows."""
    written = file.etag.strip('"') if file.etag else file.modified
    return blake2b(f"{file.size} {written}".encode(), digest_size=8).digest()


def key_of(kind: str, location: str, length: int | None, salt: bytes) -> bytes:
    """⚠ By the location as it is spelled: two files may have the same folded location. The first byte is the range: all files
    of a table share one, because they lie in one folder."""
    named = f"{FORMAT}\0{kind}\0{length}\0{location}"
    return range_of(location, salt) + _digest(named, salt, KEY_BYTES - 1)


def range_of(location: str, salt: bytes) -> bytes:
    return _digest(location.rpartition("/")[0], salt, 1)


def encoded(entries: Mapping[bytes, Entry]) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table(
        {
            "key": pa.array(list(entries), pa.binary(KEY_BYTES)),
            "payload": pa.array([one.payload for one in entries.values()], pa.large_binary()),
            "digest": pa.array([one.digest for one in entries.values()], pa.binary(8)),
            "used_day": pa.array([one.used_day for one in entries.values()], pa.int32()),
            "stamp": pa.array([one.stamp for one in entries.values()], pa.binary()),
            "source": pa.array([one.source for one in entries.values()], pa.binary()),
        },
        metadata={"format": str(FORMAT)},
    )
    out = io.BytesIO()
    pq.write_table(table, out, compression="none", use_dictionary=False, write_statistics=False)
    return out.getvalue()


def decoded(content: bytes) -> dict[bytes, Entry]:
    """Empty for a file that is damaged or of another format."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(io.BytesIO(content))
        if (table.schema.metadata or {}).get(b"format") != str(FORMAT).encode():
            return {}
        keys, *columns = (_values(table, name) for name in ("key", "payload", "digest", "used_day", "stamp", "source"))
    except (pa.ArrowException, OSError, KeyError, ValueError):
        return {}
    return {key: Entry(*row) for key, row in zip(keys, zip(*columns, strict=True), strict=True)}


def merged(files: Iterable[Mapping[bytes, Entry]]) -> dict[bytes, Entry]:
    """Of duplicate entries, keeps a whole one, and among those the one that was used last."""
    entries: dict[bytes, Entry] = {}
    for file in files:
        for key, entry in file.items():
            known = entries.get(key)
            if known is None or _rank(key, known) < _rank(key, entry):
                entries[key] = entry
    return entries


def _rank(key: bytes, entry: Entry) -> tuple[bool, int, bool]:
    return entry.is_whole(key), entry.used_day, bool(entry.stamp)


def _values(table: pyarrow.Table, name: str) -> list[Any]:
    return table.column(name).to_pylist()  # type: ignore[no-any-return]


def _digest(text: str, salt: bytes, size: int) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=size, key=salt).digest()
