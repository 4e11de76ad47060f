from headwater.schemas.rpc import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class PutMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PUT_MODE_UNSPECIFIED: _ClassVar[PutMode]
    PUT_MODE_UPSERT: _ClassVar[PutMode]
    PUT_MODE_IF_ABSENT: _ClassVar[PutMode]
    PUT_MODE_REPLACE: _ClassVar[PutMode]
PUT_MODE_UNSPECIFIED: PutMode
PUT_MODE_UPSERT: PutMode
PUT_MODE_IF_ABSENT: PutMode
PUT_MODE_REPLACE: PutMode

class SnapshotRef(_message.Message):
    __slots__ = ("table", "reference", "snapshot_id")
    TABLE_FIELD_NUMBER: _ClassVar[int]
    REFERENCE_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_ID_FIELD_NUMBER: _ClassVar[int]
    table: _common_pb2.ContentRef
    reference: str
    snapshot_id: int
    def __init__(self, table: _Optional[_Union[_common_pb2.ContentRef, _Mapping]] = ..., reference: _Optional[str] = ..., snapshot_id: _Optional[int] = ...) -> None: ...

class TableStats(_message.Message):
    __slots__ = ("row_count", "file_count", "size_bytes", "delete_file_count", "properties")
    class PropertiesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ROW_COUNT_FIELD_NUMBER: _ClassVar[int]
    FILE_COUNT_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    DELETE_FILE_COUNT_FIELD_NUMBER: _ClassVar[int]
    PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    row_count: int
    file_count: int
    size_bytes: int
    delete_file_count: int
    properties: _containers.ScalarMap[str, str]
    def __init__(self, row_count: _Optional[int] = ..., file_count: _Optional[int] = ..., size_bytes: _Optional[int] = ..., delete_file_count: _Optional[int] = ..., properties: _Optional[_Mapping[str, str]] = ...) -> None: ...

class Sketch(_message.Message):
    __slots__ = ("type", "data")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    type: str
    data: bytes
    def __init__(self, type: _Optional[str] = ..., data: _Optional[bytes] = ...) -> None: ...

class DistinctCount(_message.Message):
    __slots__ = ("count", "is_exact", "sketches")
    COUNT_FIELD_NUMBER: _ClassVar[int]
    IS_EXACT_FIELD_NUMBER: _ClassVar[int]
    SKETCHES_FIELD_NUMBER: _ClassVar[int]
    count: int
    is_exact: bool
    sketches: _containers.RepeatedCompositeFieldContainer[Sketch]
    def __init__(self, count: _Optional[int] = ..., is_exact: _Optional[bool] = ..., sketches: _Optional[_Iterable[_Union[Sketch, _Mapping]]] = ...) -> None: ...

class Histogram(_message.Message):
    __slots__ = ("bounds", "counts")
    BOUNDS_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    bounds: _containers.RepeatedScalarFieldContainer[bytes]
    counts: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, bounds: _Optional[_Iterable[bytes]] = ..., counts: _Optional[_Iterable[int]] = ...) -> None: ...

class ColumnStats(_message.Message):
    __slots__ = ("column_id", "value_count", "null_count", "nan_count", "size_bytes", "lower", "upper", "distinct", "histogram")
    COLUMN_ID_FIELD_NUMBER: _ClassVar[int]
    VALUE_COUNT_FIELD_NUMBER: _ClassVar[int]
    NULL_COUNT_FIELD_NUMBER: _ClassVar[int]
    NAN_COUNT_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    LOWER_FIELD_NUMBER: _ClassVar[int]
    UPPER_FIELD_NUMBER: _ClassVar[int]
    DISTINCT_FIELD_NUMBER: _ClassVar[int]
    HISTOGRAM_FIELD_NUMBER: _ClassVar[int]
    column_id: int
    value_count: int
    null_count: int
    nan_count: int
    size_bytes: int
    lower: bytes
    upper: bytes
    distinct: DistinctCount
    histogram: Histogram
    def __init__(self, column_id: _Optional[int] = ..., value_count: _Optional[int] = ..., null_count: _Optional[int] = ..., nan_count: _Optional[int] = ..., size_bytes: _Optional[int] = ..., lower: _Optional[bytes] = ..., upper: _Optional[bytes] = ..., distinct: _Optional[_Union[DistinctCount, _Mapping]] = ..., histogram: _Optional[_Union[Histogram, _Mapping]] = ...) -> None: ...

class FileColumnStats(_message.Message):
    __slots__ = ("path", "row_count", "size_bytes", "columns")
    PATH_FIELD_NUMBER: _ClassVar[int]
    ROW_COUNT_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    path: str
    row_count: int
    size_bytes: int
    columns: _containers.RepeatedCompositeFieldContainer[ColumnStats]
    def __init__(self, path: _Optional[str] = ..., row_count: _Optional[int] = ..., size_bytes: _Optional[int] = ..., columns: _Optional[_Iterable[_Union[ColumnStats, _Mapping]]] = ...) -> None: ...

class StatsSummary(_message.Message):
    __slots__ = ("table_id", "snapshot_id", "source", "table", "columns", "files", "size_bytes", "digest", "version")
    TABLE_ID_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_ID_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    table_id: str
    snapshot_id: int
    source: str
    table: TableStats
    columns: int
    files: int
    size_bytes: int
    digest: str
    version: str
    def __init__(self, table_id: _Optional[str] = ..., snapshot_id: _Optional[int] = ..., source: _Optional[str] = ..., table: _Optional[_Union[TableStats, _Mapping]] = ..., columns: _Optional[int] = ..., files: _Optional[int] = ..., size_bytes: _Optional[int] = ..., digest: _Optional[str] = ..., version: _Optional[str] = ...) -> None: ...

class GetTableStatsRequest(_message.Message):
    __slots__ = ("snapshot",)
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    snapshot: SnapshotRef
    def __init__(self, snapshot: _Optional[_Union[SnapshotRef, _Mapping]] = ...) -> None: ...

class GetTableStatsResponse(_message.Message):
    __slots__ = ("stats",)
    STATS_FIELD_NUMBER: _ClassVar[int]
    stats: StatsSummary
    def __init__(self, stats: _Optional[_Union[StatsSummary, _Mapping]] = ...) -> None: ...

class ListColumnStatsRequest(_message.Message):
    __slots__ = ("snapshot", "page")
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    PAGE_FIELD_NUMBER: _ClassVar[int]
    snapshot: SnapshotRef
    page: _common_pb2.PageRequest
    def __init__(self, snapshot: _Optional[_Union[SnapshotRef, _Mapping]] = ..., page: _Optional[_Union[_common_pb2.PageRequest, _Mapping]] = ...) -> None: ...

class ListColumnStatsResponse(_message.Message):
    __slots__ = ("columns", "page")
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    PAGE_FIELD_NUMBER: _ClassVar[int]
    columns: _containers.RepeatedCompositeFieldContainer[ColumnStats]
    page: _common_pb2.PageResponse
    def __init__(self, columns: _Optional[_Iterable[_Union[ColumnStats, _Mapping]]] = ..., page: _Optional[_Union[_common_pb2.PageResponse, _Mapping]] = ...) -> None: ...

class ListFileColumnStatsRequest(_message.Message):
    __slots__ = ("snapshot", "page")
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    PAGE_FIELD_NUMBER: _ClassVar[int]
    snapshot: SnapshotRef
    page: _common_pb2.PageRequest
    def __init__(self, snapshot: _Optional[_Union[SnapshotRef, _Mapping]] = ..., page: _Optional[_Union[_common_pb2.PageRequest, _Mapping]] = ...) -> None: ...

class ListFileColumnStatsResponse(_message.Message):
    __slots__ = ("files", "page")
    FILES_FIELD_NUMBER: _ClassVar[int]
    PAGE_FIELD_NUMBER: _ClassVar[int]
    files: _containers.RepeatedCompositeFieldContainer[FileColumnStats]
    page: _common_pb2.PageResponse
    def __init__(self, files: _Optional[_Iterable[_Union[FileColumnStats, _Mapping]]] = ..., page: _Optional[_Union[_common_pb2.PageResponse, _Mapping]] = ...) -> None: ...

class PutTableStatsRequest(_message.Message):
    __slots__ = ("idempotency", "snapshot", "mode", "table")
    IDEMPOTENCY_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    idempotency: _common_pb2.Idempotency
    snapshot: SnapshotRef
    mode: PutMode
    table: TableStats
    def __init__(self, idempotency: _Optional[_Union[_common_pb2.Idempotency, _Mapping]] = ..., snapshot: _Optional[_Union[SnapshotRef, _Mapping]] = ..., mode: _Optional[_Union[PutMode, str]] = ..., table: _Optional[_Union[TableStats, _Mapping]] = ...) -> None: ...

class PutTableStatsResponse(_message.Message):
    __slots__ = ("stats", "meta")
    STATS_FIELD_NUMBER: _ClassVar[int]
    META_FIELD_NUMBER: _ClassVar[int]
    stats: StatsSummary
    meta: _common_pb2.MutationMeta
    def __init__(self, stats: _Optional[_Union[StatsSummary, _Mapping]] = ..., meta: _Optional[_Union[_common_pb2.MutationMeta, _Mapping]] = ...) -> None: ...

class PutColumnStatsRequest(_message.Message):
    __slots__ = ("idempotency", "snapshot", "mode", "columns")
    IDEMPOTENCY_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    idempotency: _common_pb2.Idempotency
    snapshot: SnapshotRef
    mode: PutMode
    columns: _containers.RepeatedCompositeFieldContainer[ColumnStats]
    def __init__(self, idempotency: _Optional[_Union[_common_pb2.Idempotency, _Mapping]] = ..., snapshot: _Optional[_Union[SnapshotRef, _Mapping]] = ..., mode: _Optional[_Union[PutMode, str]] = ..., columns: _Optional[_Iterable[_Union[ColumnStats, _Mapping]]] = ...) -> None: ...

class PutColumnStatsResponse(_message.Message):
    __slots__ = ("stats", "rows", "meta")
    STATS_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    META_FIELD_NUMBER: _ClassVar[int]
    stats: StatsSummary
    rows: int
    meta: _common_pb2.MutationMeta
    def __init__(self, stats: _Optional[_Union[StatsSummary, _Mapping]] = ..., rows: _Optional[int] = ..., meta: _Optional[_Union[_common_pb2.MutationMeta, _Mapping]] = ...) -> None: ...

class PutFileColumnStatsRequest(_message.Message):
    __slots__ = ("idempotency", "snapshot", "mode", "files")
    IDEMPOTENCY_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    idempotency: _common_pb2.Idempotency
    snapshot: SnapshotRef
    mode: PutMode
    files: _containers.RepeatedCompositeFieldContainer[FileColumnStats]
    def __init__(self, idempotency: _Optional[_Union[_common_pb2.Idempotency, _Mapping]] = ..., snapshot: _Optional[_Union[SnapshotRef, _Mapping]] = ..., mode: _Optional[_Union[PutMode, str]] = ..., files: _Optional[_Iterable[_Union[FileColumnStats, _Mapping]]] = ...) -> None: ...

class PutFileColumnStatsResponse(_message.Message):
    __slots__ = ("stats", "rows", "meta")
    STATS_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    META_FIELD_NUMBER: _ClassVar[int]
    stats: StatsSummary
    rows: int
    meta: _common_pb2.MutationMeta
    def __init__(self, stats: _Optional[_Union[StatsSummary, _Mapping]] = ..., rows: _Optional[int] = ..., meta: _Optional[_Union[_common_pb2.MutationMeta, _Mapping]] = ...) -> None: ...

class DeleteStatsRequest(_message.Message):
    __slots__ = ("idempotency", "precondition", "snapshot")
    IDEMPOTENCY_FIELD_NUMBER: _ClassVar[int]
    PRECONDITION_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    idempotency: _common_pb2.Idempotency
    precondition: _common_pb2.Precondition
    snapshot: SnapshotRef
    def __init__(self, idempotency: _Optional[_Union[_common_pb2.Idempotency, _Mapping]] = ..., precondition: _Optional[_Union[_common_pb2.Precondition, _Mapping]] = ..., snapshot: _Optional[_Union[SnapshotRef, _Mapping]] = ...) -> None: ...

class DeleteStatsResponse(_message.Message):
    __slots__ = ("meta",)
    META_FIELD_NUMBER: _ClassVar[int]
    meta: _common_pb2.MutationMeta
    def __init__(self, meta: _Optional[_Union[_common_pb2.MutationMeta, _Mapping]] = ...) -> None: ...
