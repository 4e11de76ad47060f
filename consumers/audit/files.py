"""Reads and writes Changes as files: JSON lines, or Parquet where pyarrow is installed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from headwater.consumers.durable_files import replaced_file
from headwater.schemas.change import Change
from headwater.schemas.errors import InvalidInput
from headwater.schemas.extras import needs_extra

BATCH_CHANGES = 1_000
_decode = msgspec.json.Decoder(Change).decode


def write_changes(path: Path, changes: Iterable[Change]) -> int:
    """The format follows the file's ending, .jsonl or .parquet; returns how many there were. An existing file is not
    overwritten. ⚠ The name appears only when the file is complete: a truncated one would pass for a shorter history."""
    if path.exists():
        raise InvalidInput(f"{path} exists already.", field="FILE", remedy="Name a new file.")
    match path.suffix:
        case ".jsonl":
            return _write_lines(path, changes)
        case ".parquet":
            return _write_parquet(path, changes)
    raise InvalidInput(f"{path.suffix!r} is not a format.", field="FILE", remedy="End the name in .jsonl or .parquet.")


def read_changes(path: Path) -> Iterator[Change]:
    """One after the other, in bounded memory; a line that is not a Change is reported."""
    if not path.exists():
        raise InvalidInput(f"{path} does not exist.", field="FILE", remedy="Name a file that `audit export` wrote.")
    yield from _read_parquet(path) if path.suffix == ".parquet" else _read_lines(path)


def _write_lines(path: Path, changes: Iterable[Change]) -> int:
    count = 0
    with replaced_file(path) as file:
        for change in changes:
            file.write(msgspec.json.encode(change) + b"\n")
            count += 1
    return count


def _read_lines(path: Path) -> Iterator[Change]:
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            yield _parsed(line, f"{path}, line {number}")


def _parsed(text: bytes | str, where: str) -> Change:
    try:
        return _decode(text)
    except msgspec.DecodeError as error:
        raise InvalidInput(f"{where} is not a Change: {error}.", field="FILE", remedy="Export it again.") from error


def _write_parquet(path: Path, changes: Iterable[Change]) -> int:
    """A few columns to query by, and the whole Change as JSON, which is what is verified."""
    pyarrow, parquet = _arrow()
    schema = pyarrow.schema(
        [("pointer", pyarrow.string()), ("seq", pyarrow.int64()), ("entry_id", pyarrow.string()), ("kind", pyarrow.string()),
         ("commit_id", pyarrow.string()), ("time", pyarrow.string()), ("author", pyarrow.string()),
         ("message", pyarrow.string()), ("operations", pyarrow.int64()), ("change", pyarrow.string())]
    )  # fmt: skip
    count, waiting = 0, iter(changes)
    with replaced_file(path) as file, parquet.ParquetWriter(file, schema, compression="zstd") as writer:
        while batch := list(islice(waiting, BATCH_CHANGES)):
            writer.write_table(pyarrow.Table.from_pylist([_row(change) for change in batch], schema))
            count += len(batch)
    return count


def _row(change: Change) -> dict[str, Any]:
    columns = {name: getattr(change, name) for name in ("pointer", "seq", "entry_id", "commit_id", "time", "author", "message")}
    whole = msgspec.json.encode(change).decode()
    return columns | {"kind": str(change.kind), "operations": len(change.operations), "change": whole}


def _read_parquet(path: Path) -> Iterator[Change]:
    _, parquet = _arrow()
    with parquet.ParquetFile(path) as file:
        for batch in file.iter_batches(BATCH_CHANGES, columns=["change"]):
            for number, text in enumerate(batch.column("change").to_pylist(), start=1):
                yield _parsed(text, f"{path}, row {number} of a batch")


def _arrow() -> tuple[Any, Any]:
    with needs_extra("Parquet, unlike .jsonl,"):
        import pyarrow
        from pyarrow import parquet
    return pyarrow, parquet
