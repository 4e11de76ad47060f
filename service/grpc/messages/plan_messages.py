"""Plans, planned files and obligations as messages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

import msgspec
from pyiceberg.manifest import DataFile, DataFileContent

from headwater.producer.access.obligations import Obligation
from headwater.producer.connectors.source_spi import DeletedRows, ScanFile
from headwater.producer.content.content_types import DELTA_TABLE
from headwater.producer.plans.plan_rows import PinnedEntry, Plan, PlanInput, PlanState
from headwater.schemas.entry_ids import time_text
from headwater.schemas.rpc import common_pb2, planning_pb2
from headwater.service.grpc.messages.frames import CHUNK_BYTES
from headwater.service.grpc.messages.message_fields import TABLE, VIEW
from headwater.service.iceberg.operations import lake_branch
from headwater.service.iceberg.plans.plan_operations import branch_pins
from headwater.service.planning.file_json import partition_json
from headwater.service.planning.file_planner import FilePlanner, PlannedFile
from headwater.service.planning.manifest_reader import content_range, referenced_data_file

KINDS = {lake_branch.TABLE: TABLE, lake_branch.VIEW: VIEW, DELTA_TABLE.name: TABLE}
_STATES = {
    PlanState.ACTIVE: planning_pb2.PLAN_STATE_ACTIVE,
    PlanState.EXPIRED: planning_pb2.PLAN_STATE_EXPIRED,
    PlanState.ENDED: planning_pb2.PLAN_STATE_ENDED,
}

_CONTENTS = {
    DataFileContent.DATA: planning_pb2.FILE_CONTENT_DATA,
    DataFileContent.POSITION_DELETES: planning_pb2.FILE_CONTENT_POSITION_DELETES,
    DataFileContent.EQUALITY_DELETES: planning_pb2.FILE_CONTENT_EQUALITY_DELETES,
}
FILES_AT_ONCE = 200


def plan_message(plan: Plan, now: int, obligations: Sequence[Sequence[Obligation]]) -> planning_pb2.Plan:
    return planning_pb2.Plan(
        id=plan.id,
        state=_STATES[plan.state(now)],
        created=time_text(plan.created_at),
        expires=time_text(plan.expires_at),
        pinned_until=time_text(plan.pinned_until),
        ends=time_text(plan.ends_at),
        inputs=[
            _input(index, one, of_input) for index, (one, of_input) in enumerate(zip(plan.inputs, obligations, strict=True))
        ],
        pins=[pin_message(one) for one in branch_pins(plan)],
    )


def pin_message(pin: PinnedEntry) -> planning_pb2.PinnedEntry:
    return planning_pb2.PinnedEntry(pointer=pin.pointer, seq=pin.seq, entry_id=pin.entry_id.hex())


def obligation_message(one: Obligation) -> planning_pb2.Obligation:
    return planning_pb2.Obligation(
        type=one.type,
        policy=one.policy,
        policy_version=one.version,
        catalog_id=one.catalog_id,
        path=one.path,
        content=msgspec.json.encode(one.content).decode(),
        parameters=one.parameters,
    )


def _input(index: int, one: PlanInput, obligations: Sequence[Obligation]) -> planning_pb2.PlannedInput:
    return planning_pb2.PlannedInput(
        index=index,
        name=common_pb2.Name(catalog=one.catalog, path=one.key),
        kind=KINDS[one.type],
        content_id=one.content_id,
        metadata_location=one.metadata_location,
        snapshot_id=one.snapshot_id,
        reads=one.reads,
        is_expanded=not one.is_named,
        obligations=[obligation_message(each) for each in obligations],
    )


# ── files ───────────────────────────────────────────────────────────────────────────────────────────────────


def file_messages(planner: FilePlanner, files: Iterator[PlannedFile]) -> Iterator[planning_pb2.PlanFilesResponse]:
    """Each delete file once, before the first data file that refers to it. None is much larger than a chunk."""
    numbers: dict[tuple[str, int | None], int] = {}
    part, size = planning_pb2.PlanFilesResponse(), 0
    while batch := list(islice(files, FILES_AT_ONCE)):
        for one in batch:
            references = []
            for delete in one.deletes:
                made = _file(delete, planner)
                key = (made.path, made.content_offset if made.HasField("content_offset") else None)
                if key not in numbers:
                    numbers[key] = made.id = len(numbers) + 1
                    part.files.append(made)
                    size += made.ByteSize()
                references.append(numbers[key])
            data = _file(one.data, planner)
            data.deletes.extend(references)
            part.files.append(data)
            size += data.ByteSize()
            if size >= CHUNK_BYTES:
                yield part
                part, size = planning_pb2.PlanFilesResponse(), 0
    if size:
        yield part


def source_file_messages(files: Iterator[ScanFile]) -> Iterator[planning_pb2.PlanFilesResponse]:
    """Messages for a table that its connector's source plans."""
    part, size, number = planning_pb2.PlanFilesResponse(), 0, 0
    for one in files:
        data = planning_pb2.PlannedFile(
            content=planning_pb2.FILE_CONTENT_DATA,
            path=one.path,
            format=one.format,
            partition=msgspec.json.encode(one.partition).decode(),
            record_count=one.record_count,
            size_bytes=one.size_bytes,
        )
        if one.deleted is not None:
            number += 1
            data.deletes.append(number)
            part.files.append(_vector(number, one.path, one.deleted))
        part.files.append(data)
        size += data.ByteSize()
        if size >= CHUNK_BYTES:
            yield part
            part, size = planning_pb2.PlanFilesResponse(), 0
    if part.files:
        yield part


def _vector(number: int, of: str, rows: DeletedRows) -> planning_pb2.PlannedFile:
    return planning_pb2.PlannedFile(
        id=number,
        content=planning_pb2.FILE_CONTENT_POSITION_DELETES,
        path=rows.path,
        format=rows.format,
        partition="{}",
        record_count=rows.count,
        referenced_data_file=of,
        content_offset=rows.offset,
        content_bytes=rows.size_bytes,
    )


def _file(file: DataFile, planner: FilePlanner) -> planning_pb2.PlannedFile:
    offset, size = content_range(file)
    partition = partition_json(file, planner)
    return planning_pb2.PlannedFile(
        content=_CONTENTS[file.content],
        path=file.file_path,
        format=file.file_format.value.lower(),
        spec_id=file.spec_id,
        partition=msgspec.json.encode(partition).decode() if partition else "[]",
        record_count=file.record_count,
        size_bytes=file.file_size_in_bytes,
        split_offsets=file.split_offsets,
        equality_ids=file.equality_ids,
        referenced_data_file=referenced_data_file(file),
        content_offset=offset,
        content_bytes=size,
        sort_order_id=file.sort_order_id,
    )
