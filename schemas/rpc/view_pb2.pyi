from google.protobuf import field_mask_pb2 as _field_mask_pb2
from headwater.schemas.rpc import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class SqlRepresentation(_message.Message):
    __slots__ = ("dialect", "sql")
    DIALECT_FIELD_NUMBER: _ClassVar[int]
    SQL_FIELD_NUMBER: _ClassVar[int]
    dialect: str
    sql: str
    def __init__(self, dialect: _Optional[str] = ..., sql: _Optional[str] = ...) -> None: ...

class View(_message.Message):
    __slots__ = ("resource_id", "name", "metadata_location", "location", "properties", "schema", "representations", "default_namespace", "base_relations")
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
    REPRESENTATIONS_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    BASE_RELATIONS_FIELD_NUMBER: _ClassVar[int]
    resource_id: _common_pb2.ResourceId
    name: _common_pb2.Name
    metadata_location: str
    location: str
    properties: _containers.ScalarMap[str, str]
    schema: str
    representations: _containers.RepeatedCompositeFieldContainer[SqlRepresentation]
    default_namespace: _containers.RepeatedScalarFieldContainer[str]
    base_relations: _containers.RepeatedCompositeFieldContainer[_common_pb2.Name]
    def __init__(self, resource_id: _Optional[_Union[_common_pb2.ResourceId, _Mapping]] = ..., name: _Optional[_Union[_common_pb2.Name, _Mapping]] = ..., metadata_location: _Optional[str] = ..., location: _Optional[str] = ..., properties: _Optional[_Mapping[str, str]] = ..., schema: _Optional[str] = ..., representations: _Optional[_Iterable[_Union[SqlRepresentation, _Mapping]]] = ..., default_namespace: _Optional[_Iterable[str]] = ..., base_relations: _Optional[_Iterable[_Union[_common_pb2.Name, _Mapping]]] = ...) -> None: ...

class ListViewsRequest(_message.Message):
    __slots__ = ("namespace", "reference", "page")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    REFERENCE_FIELD_NUMBER: _ClassVar[int]
    PAGE_FIELD_NUMBER: _ClassVar[int]
    namespace: _common_pb2.Name
    reference: str
    page: _common_pb2.PageRequest
    def __init__(self, namespace: _Optional[_Union[_common_pb2.Name, _Mapping]] = ..., reference: _Optional[str] = ..., page: _Optional[_Union[_common_pb2.PageRequest, _Mapping]] = ...) -> None: ...

class ListViewsResponse(_message.Message):
    __slots__ = ("views", "page")
    VIEWS_FIELD_NUMBER: _ClassVar[int]
    PAGE_FIELD_NUMBER: _ClassVar[int]
    views: _containers.RepeatedCompositeFieldContainer[_common_pb2.Name]
    page: _common_pb2.PageResponse
    def __init__(self, views: _Optional[_Iterable[_Union[_common_pb2.Name, _Mapping]]] = ..., page: _Optional[_Union[_common_pb2.PageResponse, _Mapping]] = ...) -> None: ...

class GetViewRequest(_message.Message):
    __slots__ = ("view", "reference")
    VIEW_FIELD_NUMBER: _ClassVar[int]
    REFERENCE_FIELD_NUMBER: _ClassVar[int]
    view: _common_pb2.ContentRef
    reference: str
    def __init__(self, view: _Optional[_Union[_common_pb2.ContentRef, _Mapping]] = ..., reference: _Optional[str] = ...) -> None: ...

class GetViewResponse(_message.Message):
    __slots__ = ("view",)
    VIEW_FIELD_NUMBER: _ClassVar[int]
    view: View
    def __init__(self, view: _Optional[_Union[View, _Mapping]] = ...) -> None: ...

class CreateViewRequest(_message.Message):
    __slots__ = ("idempotency", "name", "reference", "schema", "representations", "default_namespace", "location", "properties", "base_relations")
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
    REPRESENTATIONS_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    LOCATION_FIELD_NUMBER: _ClassVar[int]
    PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    BASE_RELATIONS_FIELD_NUMBER: _ClassVar[int]
    idempotency: _common_pb2.Idempotency
    name: _common_pb2.Name
    reference: str
    schema: str
    representations: _containers.RepeatedCompositeFieldContainer[SqlRepresentation]
    default_namespace: _containers.RepeatedScalarFieldContainer[str]
    location: str
    properties: _containers.ScalarMap[str, str]
    base_relations: _containers.RepeatedCompositeFieldContainer[_common_pb2.Name]
    def __init__(self, idempotency: _Optional[_Union[_common_pb2.Idempotency, _Mapping]] = ..., name: _Optional[_Union[_common_pb2.Name, _Mapping]] = ..., reference: _Optional[str] = ..., schema: _Optional[str] = ..., representations: _Optional[_Iterable[_Union[SqlRepresentation, _Mapping]]] = ..., default_namespace: _Optional[_Iterable[str]] = ..., location: _Optional[str] = ..., properties: _Optional[_Mapping[str, str]] = ..., base_relations: _Optional[_Iterable[_Union[_common_pb2.Name, _Mapping]]] = ...) -> None: ...

class CreateViewResponse(_message.Message):
    __slots__ = ("view", "meta")
    VIEW_FIELD_NUMBER: _ClassVar[int]
    META_FIELD_NUMBER: _ClassVar[int]
    view: View
    meta: _common_pb2.MutationMeta
    def __init__(self, view: _Optional[_Union[View, _Mapping]] = ..., meta: _Optional[_Union[_common_pb2.MutationMeta, _Mapping]] = ...) -> None: ...

class UpdateViewRequest(_message.Message):
    __slots__ = ("idempotency", "target", "reference", "view", "update_mask", "precondition")
    IDEMPOTENCY_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    REFERENCE_FIELD_NUMBER: _ClassVar[int]
    VIEW_FIELD_NUMBER: _ClassVar[int]
    UPDATE_MASK_FIELD_NUMBER: _ClassVar[int]
    PRECONDITION_FIELD_NUMBER: _ClassVar[int]
    idempotency: _common_pb2.Idempotency
    target: _common_pb2.ContentRef
    reference: str
    view: View
    update_mask: _field_mask_pb2.FieldMask
    precondition: _common_pb2.Precondition
    def __init__(self, idempotency: _Optional[_Union[_common_pb2.Idempotency, _Mapping]] = ..., target: _Optional[_Union[_common_pb2.ContentRef, _Mapping]] = ..., reference: _Optional[str] = ..., view: _Optional[_Union[View, _Mapping]] = ..., update_mask: _Optional[_Union[_field_mask_pb2.FieldMask, _Mapping]] = ..., precondition: _Optional[_Union[_common_pb2.Precondition, _Mapping]] = ...) -> None: ...

class UpdateViewResponse(_message.Message):
    __slots__ = ("view", "meta")
    VIEW_FIELD_NUMBER: _ClassVar[int]
    META_FIELD_NUMBER: _ClassVar[int]
    view: View
    meta: _common_pb2.MutationMeta
    def __init__(self, view: _Optional[_Union[View, _Mapping]] = ..., meta: _Optional[_Union[_common_pb2.MutationMeta, _Mapping]] = ...) -> None: ...

class DeleteViewRequest(_message.Message):
    __slots__ = ("idempotency", "view", "reference", "precondition")
    IDEMPOTENCY_FIELD_NUMBER: _ClassVar[int]
    VIEW_FIELD_NUMBER: _ClassVar[int]
    REFERENCE_FIELD_NUMBER: _ClassVar[int]
    PRECONDITION_FIELD_NUMBER: _ClassVar[int]
    idempotency: _common_pb2.Idempotency
    view: _common_pb2.ContentRef
    reference: str
    precondition: _common_pb2.Precondition
    def __init__(self, idempotency: _Optional[_Union[_common_pb2.Idempotency, _Mapping]] = ..., view: _Optional[_Union[_common_pb2.ContentRef, _Mapping]] = ..., reference: _Optional[str] = ..., precondition: _Optional[_Union[_common_pb2.Precondition, _Mapping]] = ...) -> None: ...

class DeleteViewResponse(_message.Message):
    __slots__ = ("meta",)
    META_FIELD_NUMBER: _ClassVar[int]
    meta: _common_pb2.MutationMeta
    def __init__(self, meta: _Optional[_Union[_common_pb2.MutationMeta, _Mapping]] = ...) -> None: ...
