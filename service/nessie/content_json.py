"""Converts contents between Nessie's JSON and ours.

Numbers that a table or view does not have are written as -1 or 0: Nessie's clients refuse a content without them.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec import Meta

from headwater.producer.content import content_types as ours
from headwater.schemas.change import KeyPath, Value
from headwater.schemas.entry_ids import content_id_text

_Id: TypeAlias = Annotated[str, Meta(max_length=64)]


class IcebergTable(msgspec.Struct, frozen=True, rename="camel", tag="ICEBERG_TABLE"):
    metadata_location: str
    snapshot_id: int | None = None
    schema_id: int | None = None
    spec_id: int | None = None
    sort_order_id: int | None = None
    id: _Id | None = None

    def ours(self) -> ours.IcebergTable:
        return ours.IcebergTable(self.metadata_location, self.snapshot_id, self.schema_id, self.spec_id, self.sort_order_id)


class IcebergView(msgspec.Struct, frozen=True, rename="camel", tag="ICEBERG_VIEW"):
    """`sqlText` and `dialect`, which old clients send, are in the view's metadata and not kept beside it."""

    metadata_location: str
    version_id: int | None = None
    schema_id: int | None = None
    id: _Id | None = None

    def ours(self) -> ours.IcebergView:
        return ours.IcebergView(self.metadata_location, self.version_id, self.schema_id)


class DeltaLakeTable(msgspec.Struct, frozen=True, rename="camel", tag="DELTA_LAKE_TABLE"):
    metadata_location_history: list[str]
    checkpoint_location_history: list[str]
    last_checkpoint: str | None = None
    id: _Id | None = None

    def ours(self) -> ours.DeltaTable:
        return ours.DeltaTable(self.metadata_location_history, self.checkpoint_location_history, self.last_checkpoint)


class Namespace(msgspec.Struct, frozen=True, rename="camel", tag="NAMESPACE"):
    elements: list[str]
    """Repeats the key."""
    properties: dict[str, str] = {}
    id: _Id | None = None

    def ours(self) -> ours.Namespace:
        return ours.Namespace(self.properties)


class Udf(msgspec.Struct, frozen=True, rename="camel", tag="UDF"):
    metadata_location: str | None = None
    version_id: str | None = None
    signature_id: str | None = None
    sql_text: str | None = None
    dialect: str | None = None
    id: _Id | None = None

    def ours(self) -> ours.Udf:
        return ours.Udf(self.metadata_location, self.version_id, self.signature_id, self.sql_text, self.dialect)


NessieContent: TypeAlias = IcebergTable | IcebergView | DeltaLakeTable | Namespace | Udf

_NESSIE_NAMES = {ours.DELTA_TABLE.name: "DELTA_LAKE_TABLE"}
_TABLE_DEFAULTS = {"snapshotId": -1, "schemaId": 0, "specId": 0, "sortOrderId": 0}
_VIEW_DEFAULTS = {"versionId": -1, "schemaId": 0}


def nessie_type(type: str) -> str:
    return _NESSIE_NAMES.get(type, type)


def content_json(key: KeyPath, type: str, content_id: bytes, value: Value) -> dict[str, Any]:
    """Fields that this version does not know go along as they are."""
    named = {_camel(name): field for name, field in value.items()}
    head = {"type": nessie_type(type), "id": content_id_text(content_id)}
    if type == ours.ICEBERG_TABLE.name:
        return {**head, **_TABLE_DEFAULTS, **named}
    if type == ours.ICEBERG_VIEW.name:
        return {**head, **_VIEW_DEFAULTS, **named}
    if type == ours.NAMESPACE.name:
        return {**head, "elements": key, "properties": {}, **value}
    return {**head, **named}


_CAMEL: dict[str, str] = {}


def _camel(name: str) -> str:
    """The fields of the known types, each turned round once."""
    known = _CAMEL.get(name)
    if known is None:
        first, *rest = name.split("_")
        known = first + "".join(word.capitalize() for word in rest)
        if len(_CAMEL) < 1_000:
            _CAMEL[name] = known
    return known
