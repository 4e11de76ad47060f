"""Finds the metadata of a table or view by its key, for commands on its files."""

from __future__ import annotations

from headwater.cli.target import catalog_of
from headwater.schemas.errors import ContentNotFound, InvalidInput
from headwater.settings import Settings

_KINDS = {"ICEBERG_TABLE": "table", "ICEBERG_VIEW": "view", "DELTA_TABLE": "delta-table"}


def content_of(settings: Settings, realm: str, catalog: str, reference: str, table: str) -> tuple[str, str]:
    """The location of its metadata, of a Delta table that of its folder, and its kind of `FileOperations.identify`."""
    key = tuple(table.split("."))
    with catalog_of(settings, realm, catalog) as lake:
        entry = lake.snapshot(reference).get(key)
    if entry is None:
        raise ContentNotFound(f"there is no {table} at {reference}.", field="TABLE", remedy="Look with `headwater snapshot`.")
    if entry.type not in _KINDS:
        raise InvalidInput(f"{table} is a {entry.type}, which has no files.", field="TABLE", remedy="Name a table or view.")
    kind = _KINDS[entry.type]
    if kind == "delta-table":
        newest = next(iter(entry.value["metadata_location_history"]), "")
        return str(newest).partition("/_delta_log/")[0], kind
    return str(entry.value["metadata_location"]), kind
