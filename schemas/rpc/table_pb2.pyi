from google.protobuf import field_mask_pb2 as _field_mask_pb2
from headwater.schemas.rpc import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Table(_message.Message):
    __slots__ = ("resource_id", "name", "metadata_location", "location", "properties", "schema", "current_snapshot_id", "metadata")
    class PropertiesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    RESOURCE_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    METADATA_LOCATION_FIELD_NUMBER: _ClassVar[int]
    LOCATION_FIELD_NUMBER: _ClassVar[int]
    PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    CURRENT_SNAPSHOT_ID_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    resource_id: _common_pb2.ResourceId
    name: _common_pb2.Name
    metadata_location: str
    location: str
    properties: _containers.ScalarMap[str, str]
    schema: str
    current_snapshot_id: int
    metadata: str
    def __init__(self, resource_id: _Optional[_Union[_common_pb2.ResourceId, _Mapping]] = ..., name: _Optional[_Union[_common_pb2.Name, _Mapping]] = ..., metadata_location: _Optional[str] = ..., location: _Optional[str] = ..., properties: _Optional[_Mapping[str, str]] = ..., schema: _Optional[str] = ..., current_snapshot_id: _Optional[int] = ..., metadata: _Optional[str] = ...) -> None: ...

class ListTablesRequest(_message.Message):
    __slots__ = ("namespace", "reference", "page")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    REFERENCE_FIELD_NUMBER: _ClassVar[int]
    PAGE_FIELD_NUMBER: _ClassVar[int]
    namespace: _common_pb2.Name
    reference: str
    page: _common_pb2.PageRequest
    def __init__(self, namespace: _Optional[_Union[_common_pb2.Name, _Mapping]] = ..., reference: _Optional[str] = ..., page: _Optional[_Union[_common_pb2.PageRequest, _Mapping]] = ...) -> None: ...

class ListTablesResponse(_message.Message):
    __slots__ = ("tables", "page")
    TABLES_FIELD_NUMBER: _ClassVar[int]
    PAGE_FIELD_NUMBER: _ClassVar[int]
    tables: _containers.RepeatedCompositeFieldContainer[_common_pb2.Name]
    page: _common_pb2.PageResponse
    def __init__(self, tables: _Optional[_Iterable[_Union[_common_pb2.Name, _Mapping]]] = ..., page: _Optional[_Union[_common_pb2.PageResponse, _Mapping]] = ...) -> None: ...

class GetTableRequest(_message.Message):
    __slots__ = ("table", "reference", "with_metadata")
    TABLE_FIELD_NUMBER: _ClassVar[int]
    REFERENCE_FIELD_NUMBER: _ClassVar[int]
    WITH_METADATA_FIELD_NUMBER: _ClassVar[int]
    table: _common_pb2.ContentRef
    reference: str
    with_metadata: bool
    def __init__(self, table: _Optional[_Union[_common_pb2.ContentRef, _Mapping]] = ..., reference: _Optional[str] = ..., with_metadata: _Optional[bool] = ...) -> None: ...

class GetTableResponse(_message.Message):
    __slots__ = ("table",)
    TABLE_FIELD_NUMBER: _ClassVar[int]
    table: Table
    def __init__(self, table: _Optional[_Union[Table, _Mapping]] = ...) -> None: ...

class CreateTableRequest(_message.Message):
    __slots__ = ("idempotency", "name", "reference", "schema", "partition_spec", "write_order", "location", "properties", "upstream")
    class PropertiesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    IDEMPOTENCY_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    REFERENCE_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    PARTITION_SPEC_FIELD_NUMBER: _ClassVar[int]
    WRITE_ORDER_FIELD_NUMBER: _ClassVar[int]
    LOCATION_FIELD_NUMBER: _ClassVar[int]
    PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    UPSTREAM_FIELD_NUMBER: _ClassVar[int]
    idempotency: _common_pb2.Idempotency
    name: _common_pb2.Name
    reference: str
    schema: str
    partition_spec: str
    write_order: str
    location: str
    properties: _containers.ScalarMap[str, str]
    upstream: str
    def __init__(self, idempotency: _Optional[_Union[_common_pb2.Idempotency, _Mapping]] = ..., name: _Optional[_Union[_common_pb2.Name, _Mapping]] = ..., reference: _Optional[str] = ..., schema: _Optional[str] = ..., partition_spec: _Optional[str] = ..., write_order: _Optional[str] = ..., location: _Optional[str] = ..., properties: _Optional[_Mapping[str, str]] = ..., upstream: _Optional[str] = ...) -> None: ...

class CreateTableResponse(_message.Message):
    __slots__ = ("table", "meta")
    TABLE_FIELD_NUMBER: _ClassVar[int]
    META_FIELD_NUMBER: _ClassVar[int]
    table: Table
    meta: _common_pb2.MutationMeta
    def __init__(self, table: _Optional[_Union[Table, _Mapping]] = ..., meta: _Optional[_Union[_common_pb2.MutationMeta, _Mapping]] = ...) -> None: ...

class UpdateTableRequest(_message.Message):
    __slots__ = ("idempotency", "target", "reference", "table", "update_mask", "precondition")
    IDEMPOTENCY_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    REFERENCE_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    UPDATE_MASK_FIELD_NUMBER: _ClassVar[int]
    PRECONDITION_FIELD_NUMBER: _ClassVar[int]
    idempotency: _common_pb2.Idempotency
    target: _common_pb2.ContentRef
    reference: str
    table: Table
    update_mask: _field_mask_pb2.FieldMask
    precondition: _common_pb2.Precondition
    def __init__(self, idempotency: _Optional[_Union[_common_pb2.Idempotency, _Mapping]] = ..., target: _Optional[_Union[_common_pb2.ContentRef, _Mapping]] = ..., reference: _Optional[str] = ..., table: _Optional[_Union[Table, _Mapping]] = ..., update_mask: _Optional[_Union[_field_mask_pb2.FieldMask, _Mapping]] = ..., precondition: _Optional[_Union[_common_pb2.Precondition, _Mapping]] = ...) -> None: ...

class UpdateTableResponse(_message.Message):
    __slots__ = ("table", "meta")
    TABLE_FIELD_NUMBER: _ClassVar[int]
    META_FIELD_NUMBER: _ClassVar[int]
    table: Table
    meta: _common_pb2.MutationMeta
    def __init__(self, table: _Optional[_Union[Table, _Mapping]] = ..., meta: _Optional[_Union[_common_pb2.MutationMeta, _Mapping]] = ...) -> None: ...

class DeleteTableRequest(_message.Message):
    __slots__ = ("idempotency", "table", "reference", "purge", "precondition")
    IDEMPOTENCY_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    REFERENCE_FIELD_NUMBER: _ClassVar[int]
    PURGE_FIELD_NUMBER: _ClassVar[int]
    PRECONDITION_FIELD_NUMBER: _ClassVar[int]
    idempotency: _common_pb2.Idempotency
    table: _common_pb2.ContentRef
    reference: str
    purge: bool
    precondition: _common_pb2.Precondition
    def __init__(self, idempotency: _Optional[_Union[_common_pb2.Idempotency, _Mapping]] = ..., table: _Optional[_Union[_common_pb2.ContentRef, _Mapping]] = ..., reference: _Optional[str] = ..., purge: _Optional[bool] = ..., precondition: _Optional[_Union[_common_pb2.Precondition, _Mapping]] = ...) -> None: ...

class DeleteTableResponse(_message.Message):
    __slots__ = ("meta",)
    META_FIELD_NUMBER: _ClassVar[int]
    meta: _common_pb2.MutationMeta
    def __init__(self, meta: _Optional[_Union[_common_pb2.MutationMeta, _Mapping]] = ...) -> None: ...
