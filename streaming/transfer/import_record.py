"""The row that says what a realm was imported from, so that a load is continued only with its own file."""

from __future__ import annotations

import msgspec

from headwater.persistence.backend import Backend
from headwater.persistence.clock import Clock
from headwater.persistence.coordination.cas_rows import cas_row, next_row
from headwater.persistence.objects.object_types import OBJECT_TYPES, Life, ObjectType
from headwater.schemas.errors import InvalidInput
from headwater.streaming.transfer.checked_file import CheckedFile

IMPORT_TYPE = "import"
IMPORT_KEY = "import"


class ImportRecord(msgspec.Struct, frozen=True, array_like=True):
    """The row's payload. Append new fields, never move one."""

    sha256: str
    realm: str
    instance: str
    cut_at: int


OBJECT_TYPES.register(ObjectType(IMPORT_TYPE, ImportRecord, Life.MUTABLE))


def read_import(backend: Backend, realm: str) -> ImportRecord | None:
    """Where the realm comes from; None if it was not imported."""
    row = backend.read_mutable(realm, IMPORT_TYPE, IMPORT_KEY)
    return None if row is None else msgspec.msgpack.decode(row.payload, type=ImportRecord)


def begin_import(backend: Backend, realm: str, file: CheckedFile, clock: Clock) -> None:
    """⚠ Written before any other row, so that a half-loaded realm names its file. `InvalidInput` if that is another file."""
    header = file.header
    record = ImportRecord(file.sha256, header.realm, header.instance, header.cut_at)
    row = next_row(IMPORT_TYPE, IMPORT_KEY, None, msgspec.msgpack.encode(record), clock.now_micros())
    cas_row(backend, realm, None, row, clock)
    found = read_import(backend, realm)
    if found != record:
        raise InvalidInput(
            f"{realm!r} is being loaded from another file, of {found.realm if found else 'an unknown realm'!r}.",
            field="file",
            remedy="Continue with that one, or purge the realm.",
        )
