"""Where a table has files, as the name of its metadata or its content tells."""

from __future__ import annotations

import pytest

from headwater.schemas.errors import StoreUnavailable
from headwater.service.iceberg.metadata.file_names import new_file_location, only_place
from headwater.service.iceberg.metadata.new_table import new_table
from headwater.service.iceberg.metadata.table_builder import encoded
from headwater.service.iceberg.operations.metadata_files import MetadataFiles
from headwater.service.iceberg.operations.table_locations import Places, places_in
from headwater.service.storage.files import no_file
from headwater.service.storage.locations import Warehouse

ROOT = "s3://lake/warehouse"
HOME = f"{ROOT}/db/t"
SCHEMA = {"type": "struct", "fields": [{"id": 1, "name": "id", "type": "long", "required": False}]}


class StoredFiles:
    is_local = False

    def __init__(self, *, is_down: bool = False) -> None:
        self._contents: dict[str, bytes] = {}
        self._is_down = is_down

    def read(self, location: str) -> bytes:
        if self._is_down:
            raise StoreUnavailable("not now.")
        if location not in self._contents:
            raise no_file(location)
        return self._contents[location]

    def exists(self, location: str) -> bool:
        return location in self._contents

    def write_new(self, location: str, content: bytes) -> None:
        self._contents[location] = content

    def remove(self, location: str) -> None:
        del self._contents[location]


def written(files: StoredFiles, location: str, **properties: str) -> str:
    table = new_table("0198c0de-0000-4000-8000-000000000001", location, SCHEMA, None, None, properties, 1)
    metadata = MetadataFiles(Warehouse(ROOT), files)
    return metadata.write(encoded(table), table["location"], table["properties"], table=table).location


@pytest.mark.parametrize(
    ("properties", "is_together"),
    [
        ({}, True),
        ({"write.data.path": f"{HOME}/elsewhere"}, True),
        ({"write.metadata.compression-codec": "gzip"}, True),
        ({"write.data.path": f"{ROOT}/elsewhere"}, False),
        ({"write.data.path": f"{HOME}2"}, False),
        ({"write.metadata.path": f"{HOME}/deep/metadata"}, False),
        ({"write.metadata.path": f"{ROOT}/elsewhere/metadata"}, False),
    ],
)
def test_the_name_of_a_metadata_file_shows_whether_all_files_share_one_folder(
    properties: dict[str, str], is_together: bool
) -> None:
    files = StoredFiles()
    location = written(files, HOME, **properties)
    assert only_place(location) == (HOME if is_together else None)
    named = {value for name, value in properties.items() if name.endswith("path")}
    assert set(places_in(MetadataFiles(Warehouse(ROOT), files), location)) >= {HOME, *named}


def test_random_names_of_other_writers_give_no_version() -> None:
    names = [new_file_location(f"{HOME}/metadata", None, packed=False, kept_together=False) for _ in range(100)]
    assert not [name for name in names if only_place(name)]


def test_a_file_that_cannot_be_read_now_does_not_count_as_missing() -> None:
    """⚠ Else a table would lie on another one's data while the storage is down."""
    location = f"{HOME}/metadata/v1.metadata.json"
    assert places_in(MetadataFiles(Warehouse(ROOT), StoredFiles()), location) == [HOME]
    with pytest.raises(StoreUnavailable):
        places_in(MetadataFiles(Warehouse(ROOT), StoredFiles(is_down=True)), location)


def test_tables_are_found_at_above_and_below_a_place() -> None:
    places = Places()
    places.put(("db",), [f"{ROOT}/db"], is_table=False)
    for name, place in (("a", "x/a"), ("b", "x/a/deep/b"), ("c", "x/a2")):
        places.put(("db", name), [f"{ROOT}/{place}"], is_table=True)
    assert places.tables_at(f"{ROOT}/x/a") == {("db", "a"), ("db", "b")}
    assert places.tables_at(f"{ROOT}/x/a/deep/b/c") == {("db", "a"), ("db", "b")}
    assert places.tables_at(f"{ROOT}/x//a2/") == {("db", "c")}
    assert places.tables_at(f"{ROOT}/db") == set()
    places.remove(("db", "b"))
    assert places.tables_at(ROOT) == {("db", "a"), ("db", "c")}
