from headwater.schemas.rpc import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Snapshot(_message.Message):
    __slots__ = ("snapshot_id", "parent_snapshot_id", "sequence_number", "timestamp_ms", "manifest_list", "summary", "schema_id")
    class SummaryEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    SNAPSHOT_ID_FIELD_NUMBER: _ClassVar[int]
    PARENT_SNAPSHOT_ID_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_NUMBER_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    MANIFEST_LIST_FIELD_NUMBER: _ClassVar[int]
    SUMMARY_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_ID_FIELD_NUMBER: _ClassVar[int]
    snapshot_id: int
    parent_snapshot_id: int
    sequence_number: int
    timestamp_ms: int
    manifest_list: str
    summary: _containers.ScalarMap[str, str]
    schema_id: int
    def __init__(self, snapshot_id: _Optional[int] = ..., parent_snapshot_id: _Optional[int] = ..., sequence_number: _Optional[int] = ..., timestamp_ms: _Optional[int] = ..., manifest_list: _Optional[str] = ..., summary: _Optional[_Mapping[str, str]] = ..., schema_id: _Optional[int] = ...) -> None: ...

class ListSnapshotsRequest(_message.Message):
    __slots__ = ("table", "reference", "page")
    TABLE_FIELD_NUMBER: _ClassVar[int]
    REFERENCE_FIELD_NUMBER: _ClassVar[int]
    PAGE_FIELD_NUMBER: _ClassVar[int]
    table: _common_pb2.ContentRef
    reference: str
    page: _common_pb2.PageRequest
    def __init__(self, table: _Optional[_Union[_common_pb2.ContentRef, _Mapping]] = ..., reference: _Optional[str] = ..., page: _Optional[_Union[_common_pb2.PageRequest, _Mapping]] = ...) -> None: ...

class ListSnapshotsResponse(_message.Message):
    __slots__ = ("snapshots", "page")
    SNAPSHOTS_FIELD_NUMBER: _ClassVar[int]
    PAGE_FIELD_NUMBER: _ClassVar[int]
    snapshots: _containers.RepeatedCompositeFieldContainer[Snapshot]
    page: _common_pb2.PageResponse
    def __init__(self, snapshots: _Optional[_Iterable[_Union[Snapshot, _Mapping]]] = ..., page: _Optional[_Union[_common_pb2.PageResponse, _Mapping]] = ...) -> None: ...

class GetSnapshotRequest(_message.Message):
    __slots__ = ("table", "reference", "snapshot_id")
    TABLE_FIELD_NUMBER: _ClassVar[int]
    REFERENCE_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_ID_FIELD_NUMBER: _ClassVar[int]
    table: _common_pb2.ContentRef
    reference: str
    snapshot_id: int
    def __init__(self, table: _Optional[_Union[_common_pb2.ContentRef, _Mapping]] = ..., reference: _Optional[str] = ..., snapshot_id: _Optional[int] = ...) -> None: ...

class GetSnapshotResponse(_message.Message):
    __slots__ = ("snapshot",)
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    snapshot: Snapshot
    def __init__(self, snapshot: _Optional[_Union[Snapshot, _Mapping]] = ...) -> None: ...

class CreateSnapshotRequest(_message.Message):
    __slots__ = ("idempotency", "table", "reference", "snapshot", "precondition")
    IDEMPOTENCY_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    REFERENCE_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    PRECONDITION_FIELD_NUMBER: _ClassVar[int]
    idempotency: _common_pb2.Idempotency
    table: _common_pb2.ContentRef
    reference: str
    snapshot: Snapshot
    precondition: _common_pb2.Precondition
    def __init__(self, idempotency: _Optional[_Union[_common_pb2.Idempotency, _Mapping]] = ..., table: _Optional[_Union[_common_pb2.ContentRef, _Mapping]] = ..., reference: _Optional[str] = ..., snapshot: _Optional[_Union[Snapshot, _Mapping]] = ..., precondition: _Optional[_Union[_common_pb2.Precondition, _Mapping]] = ...) -> None: ...

class CreateSnapshotResponse(_message.Message):
    __slots__ = ("snapshot", "meta")
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    META_FIELD_NUMBER: _ClassVar[int]
    snapshot: Snapshot
    meta: _common_pb2.MutationMeta
    def __init__(self, snapshot: _Optional[_Union[Snapshot, _Mapping]] = ..., meta: _Optional[_Union[_common_pb2.MutationMeta, _Mapping]] = ...) -> None: ...

class DeleteSnapshotRequest(_message.Message):
    __slots__ = ("idempotency", "table", "reference", "snapshot_id", "precondition")
    IDEMPOTENCY_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    REFERENCE_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_ID_FIELD_NUMBER: _ClassVar[int]
    PRECONDITION_FIELD_NUMBER: _ClassVar[int]
    idempotency: _common_pb2.Idempotency
    table: _common_pb2.ContentRef
    reference: str
    snapshot_id: int
    precondition: _common_pb2.Precondition
    def __init__(self, idempotency: _Optional[_Union[_common_pb2.Idempotency, _Mapping]] = ..., table: _Optional[_Union[_common_pb2.ContentRef, _Mapping]] = ..., reference: _Optional[str] = ..., snapshot_id: _Optional[int] = ..., precondition: _Optional[_Union[_common_pb2.Precondition, _Mapping]] = ...) -> None: ...

class DeleteSnapshotResponse(_message.Message):
    __slots__ = ("meta",)
    META_FIELD_NUMBER: _ClassVar[int]
    meta: _common_pb2.MutationMeta
    def __init__(self, meta: _Optional[_Union[_common_pb2.MutationMeta, _Mapping]] = ...) -> None: ...
