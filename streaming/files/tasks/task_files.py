"""The files of a dropped table that a purge may delete, before checking who else needs them.

⚠ Metadata is written by engines and may name anything: files of other stores, of the machine, of other buckets. So a file
counts only if it lies below the claimed root as the root is spelled, on the same storage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import msgspec

from headwater.producer.immediate_tasks import ImmediateTask
from headwater.schemas.errors import FileMissing, HeadwaterError
from headwater.streaming.files.formats.iceberg_tables import SeenContainers, named_files, table_files, table_metadata
from headwater.streaming.files.formats.reading import Fault, MetadataReader, Mode
from headwater.streaming.files.kinds import FileKind, FileRef
from headwater.streaming.files.operations import FileOperations

UNOWNED_KINDS = (FileKind.DATA, FileKind.POSITION_DELETES, FileKind.EQUALITY_DELETES, FileKind.DELETION_VECTOR)
"""Kinds that are kept for a table with `gc.enabled=false`: engines delete only its metadata, because the data belongs to
another table."""


def files_of_table(
    operations: FileOperations, location: str, older: Sequence[str], on_fault: Callable[[Fault], None]
) -> list[FileRef]:
    """Each file comes before the file that names it. Containers that are gone were finished by an earlier attempt. `older` are
    versions of the table that go with it."""
    reader, seen = MetadataReader(operations.storages, Mode.LENIENT, on_fault), SeenContainers()
    files = [file for one in (*older, location) for file in table_files(reader, one, seen)]
    logged = [file.location for file in files if file.kind is FileKind.METADATA_LOG]
    return [*_replaced_statistics(operations, list(dict.fromkeys(logged)), location), *files]


def gives_up_no_data(operations: FileOperations, task: ImmediateTask) -> bool:
    """Decided by the table's property: the data of a table that was created by a procedure such as `snapshot` belongs to its
    source table."""
    try:
        properties = table_metadata(MetadataReader(operations.storages, Mode.STRICT), task.metadata_location).get("properties")
    except HeadwaterError:
        return True
    return isinstance(properties, dict) and str(properties.get("gc.enabled", "true")).lower() == "false"


def _replaced_statistics(operations: FileOperations, older: list[str], location: str) -> Iterator[FileRef]:
    """Statistics that a later version replaced are named only by older metadata files."""
    reader = MetadataReader(operations.storages, Mode.STRICT)
    for metadata in older:
        try:
            named = list(named_files(metadata, table_metadata(reader, metadata)))
        except (FileMissing, HeadwaterError):  # the sweep finds what is left
            continue
        for file in named:
            if file.kind is not FileKind.METADATA_LOG:
                yield msgspec.structs.replace(file, referrer=location)
