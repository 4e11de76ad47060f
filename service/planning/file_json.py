"""Planned files as the Iceberg REST specification writes them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from pyiceberg.conversions import to_json
from pyiceberg.manifest import DataFile, DataFileContent
from pyiceberg.types import IcebergType, PrimitiveType

from headwater.service.planning.file_planner import FilePlanner, PlannedFile
from headwater.service.planning.manifest_reader import content_range, referenced_data_file
from headwater.service.planning.scan_filter import ScanRequest

CONTENTS = {
    DataFileContent.DATA: "data",
    DataFileContent.POSITION_DELETES: "position-deletes",
    DataFileContent.EQUALITY_DELETES: "equality-deletes",
}


def scan_tasks(planner: FilePlanner, planned: Iterable[PlannedFile], request: ScanRequest) -> dict[str, Any]:
    """ScanTasks: each delete file once, and data files that refer to them by number."""
    numbers: dict[tuple[str, int | None], int] = {}
    delete_files: list[dict[str, Any]] = []
    tasks = []
    residual = {"residual-filter": msgspec.Raw(request.filter)} if request.has_filter else {}
    for one in planned:
        references = []
        for file in one.deletes:
            key = (file.file_path, content_range(file)[0])
            if key not in numbers:
                numbers[key] = len(delete_files)
                delete_files.append(file_json(file, planner))
            references.append(numbers[key])
        more = {"delete-file-references": references} if references else {}
        tasks.append({"data-file": file_json(one.data, planner)} | more | residual)
    return {"file-scan-tasks": tasks} | ({"delete-files": delete_files} if delete_files else {})


def file_json(file: DataFile, planner: FilePlanner) -> dict[str, Any]:
    offset, size = content_range(file)
    optional = {
        "split-offsets": file.split_offsets,
        "sort-order-id": file.sort_order_id,
        "equality-ids": file.equality_ids,
        "referenced-data-file": referenced_data_file(file),
        "content-offset": offset,
        "content-size-in-bytes": size,
    }
    return {
        "content": CONTENTS[file.content],
        "file-path": file.file_path,
        "file-format": file.file_format.value.lower(),
        "spec-id": file.spec_id,
        "partition": partition_json(file, planner),
        "file-size-in-bytes": file.file_size_in_bytes,
        "record-count": file.record_count,
    } | {name: value for name, value in optional.items() if value is not None}


def partition_json(file: DataFile, planner: FilePlanner) -> list[Any]:
    """In the order of the spec's fields."""
    types = planner.partition_types(file.spec_id)
    return [_value_json(type, value) for type, value in zip(types, file.partition._data, strict=True)] if types else []


def _value_json(type: IcebergType, value: Any) -> Any:
    return to_json(type, value) if value is not None and isinstance(type, PrimitiveType) else None
