"""Parts of a bundle as bytes: relations that were encoded before are only put together again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from google.protobuf.message import Message

from headwater.schemas.errors import ObjectTooLarge
from headwater.schemas.rpc import planning_pb2
from headwater.schemas.rpc.planning_pb2 import GetCatalogBundleResponse
from headwater.service.bundles.relation_types import relation_type
from headwater.service.bundles.relations import Relation, RelationColumn
from headwater.service.grpc.messages.encoded_changes import wire_field
from headwater.service.grpc.messages.plan_messages import KINDS, obligation_message
from headwater.service.grpc.messages.statistics_messages import column_message, summary_message
from headwater.service.storage.weighed_cache import WeighedCache

MESSAGE_BYTES = 512 * 1024
"""About as much is sent at once."""
RELATION_BYTES_MAX = 3 * 1024 * 1024
"""With its types and neighbours it must fit a message."""
_FIELDS = GetCatalogBundleResponse.DESCRIPTOR.fields_by_name
_MORE, _RESOLUTION, _TYPE = (_FIELDS[name].number for name in ("more", "resolution", "type"))
_RELATION = planning_pb2.Resolution.DESCRIPTOR.fields_by_name["relation"].number


class EncodedRelation(msgspec.Struct, frozen=True):
    relation: bytes
    types: tuple[tuple[int, bytes], ...]
    """By id: a part of the bundle each."""

    @property
    def weight_bytes(self) -> int:
        return 1_000 + len(self.relation) + sum(200 + len(part) for _, part in self.types)


EncodedRelations = WeighedCache[Any, EncodedRelation]


def part(**field: Message) -> bytes:
    made: bytes = GetCatalogBundleResponse(**field).SerializeToString()  # type: ignore[arg-type]
    return made


def resolution_part(resolution: planning_pb2.Resolution, relation: bytes = b"") -> bytes:
    raw = resolution.SerializeToString() + (wire_field(_RELATION, relation) if relation else b"")
    return wire_field(_RESOLUTION, raw)


def messages(parts: Iterable[bytes]) -> Iterator[bytes]:
    """Many parts in each: the first one as the message itself, the others after it."""
    held: list[bytes] = []
    size = 0
    for one in parts:
        if held and size + len(one) > MESSAGE_BYTES:
            yield b"".join(held)
            held, size = [], 0
        held.append(wire_field(_MORE, one) if held else one)
        size += len(one)
    if held:
        yield b"".join(held)


def encoded(relation: Relation) -> EncodedRelation:
    """`ObjectTooLarge` for one that fits no message, also without histograms and sketches."""
    types: dict[int, bytes] = {}
    shown = _relation(relation)
    for column in relation.columns:
        made = relation_type(column.type)
        shown.columns.append(_column(column, made.id))
        if made.id not in types:
            types[made.id] = part(type=planning_pb2.TypeInfo(id=made.id, name=made.name, json=made.json))
    if shown.ByteSize() > RELATION_BYTES_MAX:
        for wide in shown.columns:
            wide.stats.ClearField("histogram")
            wide.stats.distinct.ClearField("sketches")
    raw = shown.SerializeToString()
    if len(raw) + sum(map(len, types.values())) > RELATION_BYTES_MAX:
        raise ObjectTooLarge(
            f"the relation takes {len(raw)} bytes.", field="relations", remedy="Load it over Iceberg REST.", bytes=len(raw)
        )
    return EncodedRelation(raw, tuple(types.items()))


def _relation(relation: Relation) -> planning_pb2.Relation:
    found = relation.found
    shown = planning_pb2.Relation(
        is_temporary=found is None,
        enrichments=relation.enrichments,
        sql=[planning_pb2.ViewSql(dialect=dialect, sql=sql) for dialect, sql in relation.sql],
        obligations=[obligation_message(one) for one in relation.obligations],
    )
    shown.name.catalog = relation.place.catalog
    shown.name.path.extend(relation.place.path)
    if found is not None:
        shown.kind, shown.content_id, shown.metadata_location = KINDS[found.type], found.content_id, found.metadata_location
        if found.snapshot_id is not None:
            shown.snapshot_id = found.snapshot_id
    if relation.statistics is not None:
        shown.stats.CopyFrom(summary_message(relation.statistics))
    return shown


def _column(column: RelationColumn, type_id: int) -> planning_pb2.Column:
    return planning_pb2.Column(
        column_id=column.id,
        name=column.name,
        type_id=type_id,
        required=column.required,
        doc=column.doc,
        is_partition=column.is_partition,
        stats=None if column.statistics is None else column_message(column.statistics),
    )
