from headwater.schemas.rpc import common_pb2 as _common_pb2
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
PLAN_STATE_UNSPECIFIED: PlanState
PLAN_STATE_ACTIVE: PlanState
PLAN_STATE_EXPIRED: PlanState
PLAN_STATE_ENDED: PlanState
FILE_CONTENT_UNSPECIFIED: FileContent
FILE_CONTENT_DATA: FileContent
FILE_CONTENT_POSITION_DELETES: FileContent
FILE_CONTENT_EQUALITY_DELETES: FileContent

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
    __slots__ = ("index", "name", "kind", "content_id", "metadata_location", "snapshot_id")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    CONTENT_ID_FIELD_NUMBER: _ClassVar[int]
    METADATA_LOCATION_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_ID_FIELD_NUMBER: _ClassVar[int]
    index: int
    name: _common_pb2.Name
    kind: _common_pb2.ResourceKind
    content_id: str
    metadata_location: str
    snapshot_id: int
    def __init__(self, index: _Optional[int] = ..., name: _Optional[_Union[_common_pb2.Name, _Mapping]] = ..., kind: _Optional[_Union[_common_pb2.ResourceKind, str]] = ..., content_id: _Optional[str] = ..., metadata_location: _Optional[str] = ..., snapshot_id: _Optional[int] = ...) -> None: ...

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
