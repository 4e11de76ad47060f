from headwater.schemas.rpc import common_pb2 as _common_pb2
from headwater.schemas.rpc import statistics_pb2 as _statistics_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class PlanState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PLAN_STATE_UNSPECIFIED: _ClassVar[PlanState]
    PLAN_STATE_ACTIVE: _ClassVar[PlanState]
    PLAN_STATE_EXPIRED: _ClassVar[PlanState]
    PLAN_STATE_ENDED: _ClassVar[PlanState]

class FileContent(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FILE_CONTENT_UNSPECIFIED: _ClassVar[FileContent]
    FILE_CONTENT_DATA: _ClassVar[FileContent]
    FILE_CONTENT_POSITION_DELETES: _ClassVar[FileContent]
    FILE_CONTENT_EQUALITY_DELETES: _ClassVar[FileContent]

class ResolutionStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RESOLUTION_STATUS_UNSPECIFIED: _ClassVar[ResolutionStatus]
    RESOLUTION_STATUS_FOUND: _ClassVar[ResolutionStatus]
    RESOLUTION_STATUS_NOT_FOUND: _ClassVar[ResolutionStatus]
    RESOLUTION_STATUS_ERROR: _ClassVar[ResolutionStatus]
PLAN_STATE_UNSPECIFIED: PlanState
PLAN_STATE_ACTIVE: PlanState
PLAN_STATE_EXPIRED: PlanState
PLAN_STATE_ENDED: PlanState
FILE_CONTENT_UNSPECIFIED: FileContent
FILE_CONTENT_DATA: FileContent
FILE_CONTENT_POSITION_DELETES: FileContent
FILE_CONTENT_EQUALITY_DELETES: FileContent
RESOLUTION_STATUS_UNSPECIFIED: ResolutionStatus
RESOLUTION_STATUS_FOUND: ResolutionStatus
RESOLUTION_STATUS_NOT_FOUND: ResolutionStatus
RESOLUTION_STATUS_ERROR: ResolutionStatus

class PlanInput(_message.Message):
    __slots__ = ("name", "reference", "snapshot_id")
    NAME_FIELD_NUMBER: _ClassVar[int]
    REFERENCE_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_ID_FIELD_NUMBER: _ClassVar[int]
    name: _common_pb2.Name
    reference: str
    snapshot_id: int
    def __init__(self, name: _Optional[_Union[_common_pb2.Name, _Mapping]] = ..., reference: _Optional[str] = ..., snapshot_id: _Optional[int] = ...) -> None: ...

class PlannedInput(_message.Message):
    __slots__ = ("index", "name", "kind", "content_id", "metadata_location", "snapshot_id", "reads", "is_expanded", "obligations")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    CONTENT_ID_FIELD_NUMBER: _ClassVar[int]
    METADATA_LOCATION_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_ID_FIELD_NUMBER: _ClassVar[int]
    READS_FIELD_NUMBER: _ClassVar[int]
    IS_EXPANDED_FIELD_NUMBER: _ClassVar[int]
    OBLIGATIONS_FIELD_NUMBER: _ClassVar[int]
    index: int
    name: _common_pb2.Name
    kind: _common_pb2.ResourceKind
    content_id: str
    metadata_location: str
    snapshot_id: int
    reads: _containers.RepeatedScalarFieldContainer[int]
    is_expanded: bool
    obligations: _containers.RepeatedCompositeFieldContainer[Obligation]
    def __init__(self, index: _Optional[int] = ..., name: _Optional[_Union[_common_pb2.Name, _Mapping]] = ..., kind: _Optional[_Union[_common_pb2.ResourceKind, str]] = ..., content_id: _Optional[str] = ..., metadata_location: _Optional[str] = ..., snapshot_id: _Optional[int] = ..., reads: _Optional[_Iterable[int]] = ..., is_expanded: _Optional[bool] = ..., obligations: _Optional[_Iterable[_Union[Obligation, _Mapping]]] = ...) -> None: ...

class Obligation(_message.Message):
    __slots__ = ("type", "policy", "policy_version", "catalog_id", "path", "content", "parameters")
    class ParametersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    TYPE_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    POLICY_VERSION_FIELD_NUMBER: _ClassVar[int]
    CATALOG_ID_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    type: str
    policy: str
    policy_version: str
    catalog_id: int
    path: _containers.RepeatedScalarFieldContainer[str]
    content: str
    parameters: _containers.ScalarMap[str, str]
    def __init__(self, type: _Optional[str] = ..., policy: _Optional[str] = ..., policy_version: _Optional[str] = ..., catalog_id: _Optional[int] = ..., path: _Optional[_Iterable[str]] = ..., content: _Optional[str] = ..., parameters: _Optional[_Mapping[str, str]] = ...) -> None: ...

class PinnedEntry(_message.Message):
    __slots__ = ("pointer", "seq", "entry_id")
    POINTER_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    ENTRY_ID_FIELD_NUMBER: _ClassVar[int]
    pointer: str
    seq: int
    entry_id: str
    def __init__(self, pointer: _Optional[str] = ..., seq: _Optional[int] = ..., entry_id: _Optional[str] = ...) -> None: ...

class Plan(_message.Message):
    __slots__ = ("id", "state", "created", "expires", "pinned_until", "ends", "inputs", "pins")
    ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    CREATED_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_FIELD_NUMBER: _ClassVar[int]
    PINNED_UNTIL_FIELD_NUMBER: _ClassVar[int]
    ENDS_FIELD_NUMBER: _ClassVar[int]
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    PINS_FIELD_NUMBER: _ClassVar[int]
    id: str
    state: PlanState
    created: str
    expires: str
    pinned_until: str
    ends: str
    inputs: _containers.RepeatedCompositeFieldContainer[PlannedInput]
    pins: _containers.RepeatedCompositeFieldContainer[PinnedEntry]
    def __init__(self, id: _Optional[str] = ..., state: _Optional[_Union[PlanState, str]] = ..., created: _Optional[str] = ..., expires: _Optional[str] = ..., pinned_until: _Optional[str] = ..., ends: _Optional[str] = ..., inputs: _Optional[_Iterable[_Union[PlannedInput, _Mapping]]] = ..., pins: _Optional[_Iterable[_Union[PinnedEntry, _Mapping]]] = ...) -> None: ...

class BeginPlanRequest(_message.Message):
    __slots__ = ("inputs", "reference", "ttl_seconds")
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    REFERENCE_FIELD_NUMBER: _ClassVar[int]
    TTL_SECONDS_FIELD_NUMBER: _ClassVar[int]
    inputs: _containers.RepeatedCompositeFieldContainer[PlanInput]
    reference: str
    ttl_seconds: float
    def __init__(self, inputs: _Optional[_Iterable[_Union[PlanInput, _Mapping]]] = ..., reference: _Optional[str] = ..., ttl_seconds: _Optional[float] = ...) -> None: ...

class BeginPlanResponse(_message.Message):
    __slots__ = ("plan",)
    PLAN_FIELD_NUMBER: _ClassVar[int]
    plan: Plan
    def __init__(self, plan: _Optional[_Union[Plan, _Mapping]] = ...) -> None: ...

class RenewPlanRequest(_message.Message):
    __slots__ = ("plan_id", "ttl_seconds")
    PLAN_ID_FIELD_NUMBER: _ClassVar[int]
    TTL_SECONDS_FIELD_NUMBER: _ClassVar[int]
    plan_id: str
    ttl_seconds: float
    def __init__(self, plan_id: _Optional[str] = ..., ttl_seconds: _Optional[float] = ...) -> None: ...

class RenewPlanResponse(_message.Message):
    __slots__ = ("plan",)
    PLAN_FIELD_NUMBER: _ClassVar[int]
    plan: Plan
    def __init__(self, plan: _Optional[_Union[Plan, _Mapping]] = ...) -> None: ...

class EndPlanRequest(_message.Message):
    __slots__ = ("plan_id",)
    PLAN_ID_FIELD_NUMBER: _ClassVar[int]
    plan_id: str
    def __init__(self, plan_id: _Optional[str] = ...) -> None: ...

class EndPlanResponse(_message.Message):
    __slots__ = ("plan",)
    PLAN_FIELD_NUMBER: _ClassVar[int]
    plan: Plan
    def __init__(self, plan: _Optional[_Union[Plan, _Mapping]] = ...) -> None: ...

class GetPlanRequest(_message.Message):
    __slots__ = ("plan_id",)
    PLAN_ID_FIELD_NUMBER: _ClassVar[int]
    plan_id: str
    def __init__(self, plan_id: _Optional[str] = ...) -> None: ...

class GetPlanResponse(_message.Message):
    __slots__ = ("plan",)
    PLAN_FIELD_NUMBER: _ClassVar[int]
    plan: Plan
    def __init__(self, plan: _Optional[_Union[Plan, _Mapping]] = ...) -> None: ...

class PlanFilesRequest(_message.Message):
    __slots__ = ("plan_id", "index", "filter", "case_insensitive")
    PLAN_ID_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    CASE_INSENSITIVE_FIELD_NUMBER: _ClassVar[int]
    plan_id: str
    index: int
    filter: str
    case_insensitive: bool
    def __init__(self, plan_id: _Optional[str] = ..., index: _Optional[int] = ..., filter: _Optional[str] = ..., case_insensitive: _Optional[bool] = ...) -> None: ...

class PlannedFile(_message.Message):
    __slots__ = ("id", "content", "path", "format", "spec_id", "partition", "record_count", "size_bytes", "split_offsets", "equality_ids", "referenced_data_file", "content_offset", "content_bytes", "deletes", "sort_order_id")
    ID_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    SPEC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    RECORD_COUNT_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    SPLIT_OFFSETS_FIELD_NUMBER: _ClassVar[int]
    EQUALITY_IDS_FIELD_NUMBER: _ClassVar[int]
    REFERENCED_DATA_FILE_FIELD_NUMBER: _ClassVar[int]
    CONTENT_OFFSET_FIELD_NUMBER: _ClassVar[int]
    CONTENT_BYTES_FIELD_NUMBER: _ClassVar[int]
    DELETES_FIELD_NUMBER: _ClassVar[int]
    SORT_ORDER_ID_FIELD_NUMBER: _ClassVar[int]
    id: int
    content: FileContent
    path: str
    format: str
    spec_id: int
    partition: str
    record_count: int
    size_bytes: int
    split_offsets: _containers.RepeatedScalarFieldContainer[int]
    equality_ids: _containers.RepeatedScalarFieldContainer[int]
    referenced_data_file: str
    content_offset: int
    content_bytes: int
    deletes: _containers.RepeatedScalarFieldContainer[int]
    sort_order_id: int
    def __init__(self, id: _Optional[int] = ..., content: _Optional[_Union[FileContent, str]] = ..., path: _Optional[str] = ..., format: _Optional[str] = ..., spec_id: _Optional[int] = ..., partition: _Optional[str] = ..., record_count: _Optional[int] = ..., size_bytes: _Optional[int] = ..., split_offsets: _Optional[_Iterable[int]] = ..., equality_ids: _Optional[_Iterable[int]] = ..., referenced_data_file: _Optional[str] = ..., content_offset: _Optional[int] = ..., content_bytes: _Optional[int] = ..., deletes: _Optional[_Iterable[int]] = ..., sort_order_id: _Optional[int] = ...) -> None: ...

class PlanFilesResponse(_message.Message):
    __slots__ = ("files",)
    FILES_FIELD_NUMBER: _ClassVar[int]
    files: _containers.RepeatedCompositeFieldContainer[PlannedFile]
    def __init__(self, files: _Optional[_Iterable[_Union[PlannedFile, _Mapping]]] = ...) -> None: ...

class NamespacePath(_message.Message):
    __slots__ = ("catalog", "path")
    CATALOG_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    catalog: str
    path: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, catalog: _Optional[str] = ..., path: _Optional[_Iterable[str]] = ...) -> None: ...

class RelationRef(_message.Message):
    __slots__ = ("catalog", "path")
    CATALOG_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    catalog: str
    path: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, catalog: _Optional[str] = ..., path: _Optional[_Iterable[str]] = ...) -> None: ...

class TemporaryRelation(_message.Message):
    __slots__ = ("name", "schema")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    name: str
    schema: str
    def __init__(self, name: _Optional[str] = ..., schema: _Optional[str] = ...) -> None: ...

class Session(_message.Message):
    __slots__ = ("default_namespace", "search_path", "temporary_relations")
    DEFAULT_NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    SEARCH_PATH_FIELD_NUMBER: _ClassVar[int]
    TEMPORARY_RELATIONS_FIELD_NUMBER: _ClassVar[int]
    default_namespace: NamespacePath
    search_path: _containers.RepeatedCompositeFieldContainer[NamespacePath]
    temporary_relations: _containers.RepeatedCompositeFieldContainer[TemporaryRelation]
    def __init__(self, default_namespace: _Optional[_Union[NamespacePath, _Mapping]] = ..., search_path: _Optional[_Iterable[_Union[NamespacePath, _Mapping]]] = ..., temporary_relations: _Optional[_Iterable[_Union[TemporaryRelation, _Mapping]]] = ...) -> None: ...

class GetCatalogBundleRequest(_message.Message):
    __slots__ = ("plan_id", "reference", "relations", "session", "include_builtins", "builtins_digest")
    PLAN_ID_FIELD_NUMBER: _ClassVar[int]
    REFERENCE_FIELD_NUMBER: _ClassVar[int]
    RELATIONS_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_BUILTINS_FIELD_NUMBER: _ClassVar[int]
    BUILTINS_DIGEST_FIELD_NUMBER: _ClassVar[int]
    plan_id: str
    reference: str
    relations: _containers.RepeatedCompositeFieldContainer[RelationRef]
    session: Session
    include_builtins: bool
    builtins_digest: str
    def __init__(self, plan_id: _Optional[str] = ..., reference: _Optional[str] = ..., relations: _Optional[_Iterable[_Union[RelationRef, _Mapping]]] = ..., session: _Optional[_Union[Session, _Mapping]] = ..., include_builtins: _Optional[bool] = ..., builtins_digest: _Optional[str] = ...) -> None: ...

class TypeInfo(_message.Message):
    __slots__ = ("id", "name", "json")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    JSON_FIELD_NUMBER: _ClassVar[int]
    id: int
    name: str
    json: str
    def __init__(self, id: _Optional[int] = ..., name: _Optional[str] = ..., json: _Optional[str] = ...) -> None: ...

class Column(_message.Message):
    __slots__ = ("column_id", "name", "type_id", "required", "doc", "is_partition", "stats")
    COLUMN_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    TYPE_ID_FIELD_NUMBER: _ClassVar[int]
    REQUIRED_FIELD_NUMBER: _ClassVar[int]
    DOC_FIELD_NUMBER: _ClassVar[int]
    IS_PARTITION_FIELD_NUMBER: _ClassVar[int]
    STATS_FIELD_NUMBER: _ClassVar[int]
    column_id: int
    name: str
    type_id: int
    required: bool
    doc: str
    is_partition: bool
    stats: _statistics_pb2.ColumnStats
    def __init__(self, column_id: _Optional[int] = ..., name: _Optional[str] = ..., type_id: _Optional[int] = ..., required: _Optional[bool] = ..., doc: _Optional[str] = ..., is_partition: _Optional[bool] = ..., stats: _Optional[_Union[_statistics_pb2.ColumnStats, _Mapping]] = ...) -> None: ...

class ViewSql(_message.Message):
    __slots__ = ("dialect", "sql")
    DIALECT_FIELD_NUMBER: _ClassVar[int]
    SQL_FIELD_NUMBER: _ClassVar[int]
    dialect: str
    sql: str
    def __init__(self, dialect: _Optional[str] = ..., sql: _Optional[str] = ...) -> None: ...

class Relation(_message.Message):
    __slots__ = ("name", "kind", "content_id", "metadata_location", "snapshot_id", "columns", "stats", "sql", "is_temporary", "enrichments", "obligations")
    class EnrichmentsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    CONTENT_ID_FIELD_NUMBER: _ClassVar[int]
    METADATA_LOCATION_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_ID_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    STATS_FIELD_NUMBER: _ClassVar[int]
    SQL_FIELD_NUMBER: _ClassVar[int]
    IS_TEMPORARY_FIELD_NUMBER: _ClassVar[int]
    ENRICHMENTS_FIELD_NUMBER: _ClassVar[int]
    OBLIGATIONS_FIELD_NUMBER: _ClassVar[int]
    name: _common_pb2.Name
    kind: _common_pb2.ResourceKind
    content_id: str
    metadata_location: str
    snapshot_id: int
    columns: _containers.RepeatedCompositeFieldContainer[Column]
    stats: _statistics_pb2.StatsSummary
    sql: _containers.RepeatedCompositeFieldContainer[ViewSql]
    is_temporary: bool
    enrichments: _containers.ScalarMap[str, str]
    obligations: _containers.RepeatedCompositeFieldContainer[Obligation]
    def __init__(self, name: _Optional[_Union[_common_pb2.Name, _Mapping]] = ..., kind: _Optional[_Union[_common_pb2.ResourceKind, str]] = ..., content_id: _Optional[str] = ..., metadata_location: _Optional[str] = ..., snapshot_id: _Optional[int] = ..., columns: _Optional[_Iterable[_Union[Column, _Mapping]]] = ..., stats: _Optional[_Union[_statistics_pb2.StatsSummary, _Mapping]] = ..., sql: _Optional[_Iterable[_Union[ViewSql, _Mapping]]] = ..., is_temporary: _Optional[bool] = ..., enrichments: _Optional[_Mapping[str, str]] = ..., obligations: _Optional[_Iterable[_Union[Obligation, _Mapping]]] = ...) -> None: ...

class Resolution(_message.Message):
    __slots__ = ("index", "status", "relation", "attempted", "error_code", "error")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    RELATION_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTED_FIELD_NUMBER: _ClassVar[int]
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    index: int
    status: ResolutionStatus
    relation: Relation
    attempted: _containers.RepeatedCompositeFieldContainer[_common_pb2.Name]
    error_code: str
    error: str
    def __init__(self, index: _Optional[int] = ..., status: _Optional[_Union[ResolutionStatus, str]] = ..., relation: _Optional[_Union[Relation, _Mapping]] = ..., attempted: _Optional[_Iterable[_Union[_common_pb2.Name, _Mapping]]] = ..., error_code: _Optional[str] = ..., error: _Optional[str] = ...) -> None: ...

class BuiltinFunction(_message.Message):
    __slots__ = ("name", "arguments", "result", "doc")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    DOC_FIELD_NUMBER: _ClassVar[int]
    name: str
    arguments: _containers.RepeatedScalarFieldContainer[str]
    result: str
    doc: str
    def __init__(self, name: _Optional[str] = ..., arguments: _Optional[_Iterable[str]] = ..., result: _Optional[str] = ..., doc: _Optional[str] = ...) -> None: ...

class BuiltinType(_message.Message):
    __slots__ = ("name", "doc")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DOC_FIELD_NUMBER: _ClassVar[int]
    name: str
    doc: str
    def __init__(self, name: _Optional[str] = ..., doc: _Optional[str] = ...) -> None: ...

class Builtins(_message.Message):
    __slots__ = ("digest", "functions", "types")
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    FUNCTIONS_FIELD_NUMBER: _ClassVar[int]
    TYPES_FIELD_NUMBER: _ClassVar[int]
    digest: str
    functions: _containers.RepeatedCompositeFieldContainer[BuiltinFunction]
    types: _containers.RepeatedCompositeFieldContainer[BuiltinType]
    def __init__(self, digest: _Optional[str] = ..., functions: _Optional[_Iterable[_Union[BuiltinFunction, _Mapping]]] = ..., types: _Optional[_Iterable[_Union[BuiltinType, _Mapping]]] = ...) -> None: ...

class BundleHeader(_message.Message):
    __slots__ = ("plan_id", "pins")
    PLAN_ID_FIELD_NUMBER: _ClassVar[int]
    PINS_FIELD_NUMBER: _ClassVar[int]
    plan_id: str
    pins: _containers.RepeatedCompositeFieldContainer[PinnedEntry]
    def __init__(self, plan_id: _Optional[str] = ..., pins: _Optional[_Iterable[_Union[PinnedEntry, _Mapping]]] = ...) -> None: ...

class BundleEnd(_message.Message):
    __slots__ = ("types", "found", "not_found", "errors")
    TYPES_FIELD_NUMBER: _ClassVar[int]
    FOUND_FIELD_NUMBER: _ClassVar[int]
    NOT_FOUND_FIELD_NUMBER: _ClassVar[int]
    ERRORS_FIELD_NUMBER: _ClassVar[int]
    types: int
    found: int
    not_found: int
    errors: int
    def __init__(self, types: _Optional[int] = ..., found: _Optional[int] = ..., not_found: _Optional[int] = ..., errors: _Optional[int] = ...) -> None: ...

class GetCatalogBundleResponse(_message.Message):
    __slots__ = ("header", "type", "resolution", "builtins", "session", "end", "more")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    RESOLUTION_FIELD_NUMBER: _ClassVar[int]
    BUILTINS_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    header: BundleHeader
    type: TypeInfo
    resolution: Resolution
    builtins: Builtins
    session: Session
    end: BundleEnd
    more: _containers.RepeatedCompositeFieldContainer[GetCatalogBundleResponse]
    def __init__(self, header: _Optional[_Union[BundleHeader, _Mapping]] = ..., type: _Optional[_Union[TypeInfo, _Mapping]] = ..., resolution: _Optional[_Union[Resolution, _Mapping]] = ..., builtins: _Optional[_Union[Builtins, _Mapping]] = ..., session: _Optional[_Union[Session, _Mapping]] = ..., end: _Optional[_Union[BundleEnd, _Mapping]] = ..., more: _Optional[_Iterable[_Union[GetCatalogBundleResponse, _Mapping]]] = ...) -> None: ...
