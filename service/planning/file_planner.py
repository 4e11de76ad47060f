"""Plans the files of a scan: manifests pruned by partition summaries, files by partition and metrics, deletes by the index."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any

import msgspec
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.expressions.visitors import inclusive_projection, manifest_evaluator
from pyiceberg.manifest import DataFile, ManifestContent, ManifestEntry, ManifestFile
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil
from pyiceberg.types import IcebergType, NestedField

from headwater.schemas.errors import InvalidInput, MalformedMetadata
from headwater.service.planning.delete_index import DeleteIndex
from headwater.service.planning.manifest_reader import ManifestReader
from headwater.service.planning.scan_filter import MetricsTest, PartitionTest, ScanRequest, fitted, parsed_filter

Plain = dict[str, Any]
"""Table metadata as its file has it."""
Test = Callable[[Any], bool]


class PlannedFile(msgspec.Struct, frozen=True):
    data: DataFile
    deletes: list[DataFile]


class SpecTests(msgspec.Struct, frozen=True):
    """Which manifests and files of one partition spec may hold rows of the filter."""

    manifest: Test
    partition: Test


class FilePlanner:
    """Plans the files of one snapshot."""

    def __init__(self, reader: ManifestReader, metadata: Plain, snapshot: Plain, request: ScanRequest) -> None:
        self._reader = reader
        self._snapshot = snapshot
        self._request = request
        self._filter = parsed_filter(request)
        self.metadata = _parsed(metadata, snapshot if request.use_snapshot_schema else None)
        self._tests: dict[int, SpecTests] = {}
        self._partition_types: dict[int, tuple[IcebergType, ...]] = {}
        self._may_match = self._metrics_test()

    @cached_property
    def partition_schema(self) -> Schema:
        """With the columns that old specs were made of, also where they were dropped since."""
        return with_dropped_sources(self.metadata)

    def partition_types(self, spec_id: int) -> tuple[IcebergType, ...]:
        """Types of the fields of one spec, in order."""
        known = self._partition_types.get(spec_id)
        if known is None:
            fields = self.metadata.specs()[spec_id].partition_type(self.partition_schema).fields
            known = self._partition_types[spec_id] = tuple(field.field_type for field in fields)
        return known

    def manifests(self) -> tuple[list[ManifestFile], list[ManifestFile]]:
        """The data and delete manifests that may matter to the filter, in the order of the manifest list."""
        found = self._reader.manifests(str(self._snapshot["manifest-list"]))
        kept = [one for one in found if self._of_spec(one.partition_spec_id).manifest(one)]
        data = [one for one in kept if one.content == ManifestContent.DATA]
        return data, [one for one in kept if one.content == ManifestContent.DELETES]

    def files(self, data: Sequence[ManifestFile], deletes: Sequence[ManifestFile]) -> Iterator[PlannedFile]:
        """Manifest after manifest. Deletes are read whole first, data files never."""
        index = DeleteIndex(dict(self.metadata.specs()), self.metadata.schema())
        for manifest in deletes if data else ():
            for entry in self._entries(manifest):
                index.add(entry)
        for manifest in data:
            for entry in self._entries(manifest):
                yield PlannedFile(entry.data_file, index.deletes_of(entry) if deletes else [])

    def _entries(self, manifest: ManifestFile) -> Iterator[ManifestEntry]:
        in_partition = self._of_spec(manifest.partition_spec_id).partition
        entries = self._reader.entries(manifest)
        if isinstance(self._filter, AlwaysTrue):
            return iter(entries)
        return (one for one in entries if in_partition(one.data_file.partition) and self._may_match(one.data_file))

    def _of_spec(self, id: int) -> SpecTests:
        if id not in self._tests:
            spec = self.metadata.specs().get(id)
            if spec is None:
                raise MalformedMetadata(f"a manifest names partition spec {id}.", field="manifest")
            schema, case_sensitive = self.partition_schema, self._request.case_sensitive
            projected = inclusive_projection(schema, spec, case_sensitive)(self._filter)
            of_values = Schema(*spec.partition_type(schema).fields)
            self._tests[id] = SpecTests(
                manifest=_unless_unknown(manifest_evaluator(spec, schema, projected, case_sensitive)),
                partition=_always
                if isinstance(projected, AlwaysTrue)
                else _unless_unknown(PartitionTest(of_values, projected, case_sensitive).eval),
            )
        return self._tests[id]

    def _metrics_test(self) -> Test:
        """⚠ Before a plan is made of it: a filter on what is not there is the caller's fault."""
        try:
            self._filter = fitted(self._filter, self.metadata.schema(), self._request.case_sensitive)
            test = MetricsTest(self.metadata.schema(), self._filter, self._request.case_sensitive)
        except (ValueError, TypeError, NotImplementedError, RecursionError) as error:
            raise InvalidInput(
                f"the filter does not fit the table: {str(error)[:200]}", field="filter", remedy="Name columns of the table."
            ) from None
        return _unless_unknown(test.eval)


def with_dropped_sources(metadata: TableMetadata) -> Schema:
    current = metadata.schema()
    sources = {field.source_id for spec in metadata.specs().values() for field in spec.fields}
    dropped = []
    for id in sorted(sources - set(current._lazy_id_to_field)):
        older = next((one for one in reversed(metadata.schemas) if id in one._lazy_id_to_field), None)
        if older is not None:
            field = older.find_field(id)
            dropped.append(NestedField(id, f"dropped-{id}", field.field_type, required=False))
    return Schema(*current.fields, *dropped)


def _always(one: Any) -> bool:
    return True


def _unless_unknown(test: Test) -> Test:
    """Bounds of a column whose type has changed may not be readable: then the file stays."""

    def may_match(one: Any) -> bool:
        try:
            return test(one)
        except (ValueError, TypeError, struct.error, ArithmeticError):
            return True

    return may_match


def _parsed(metadata: Plain, snapshot: Plain | None) -> TableMetadata:
    schema_id = None if snapshot is None else snapshot.get("schema-id")
    wanted = metadata if schema_id is None else {**metadata, "current-schema-id": schema_id}
    try:
        return TableMetadataUtil.parse_obj(wanted)
    except Exception as error:  # pydantic's and PyIceberg's own
        raise MalformedMetadata("the table's metadata cannot be planned.", field="metadata-location") from error
