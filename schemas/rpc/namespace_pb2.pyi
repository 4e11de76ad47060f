from google.protobuf import field_mask_pb2 as _field_mask_pb2
from headwater.schemas.rpc import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Namespace(_message.Message):
    __slots__ = ("resource_id", "name", "properties")
    class PropertiesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    RESOURCE_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    resource_id: _common_pb2.ResourceId
    name: _common_pb2.Name
    properties: _containers.ScalarMap[str, str]
    def __init__(self, resource_id: _Optional[_Union[_common_pb2.ResourceId, _Mapping]] = ..., name: _Optional[_Union[_common_pb2.Name, _Mapping]] = ..., properties: _Optional[_Mapping[str, str]] = ...) -> None: ...

class ListNamespacesRequest(_message.Message):
    __slots__ = ("catalog", "reference", "path", "recursive", "page", "name_prefix")
    CATALOG_FIELD_NUMBER: _ClassVar[int]
    REFERENCE_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    RECURSIVE_FIELD_NUMBER: _ClassVar[int]
    PAGE_FIELD_NUMBER: _ClassVar[int]
    NAME_PREFIX_FIELD_NUMBER: _ClassVar[int]
    catalog: str
    reference: str
    path: _containers.RepeatedScalarFieldContainer[str]
    recursive: bool
    page: _common_pb2.PageRequest
    name_prefix: str
    def __init__(self, catalog: _Optional[str] = ..., reference: _Optional[str] = ..., path: _Optional[_Iterable[str]] = ..., recursive: _Optional[bool] = ..., page: _Optional[_Union[_common_pb2.PageRequest, _Mapping]] = ..., name_prefix: _Optional[str] = ...) -> None: ...

class ListNamespacesResponse(_message.Message):
    __slots__ = ("namespaces", "page")
    NAMESPACES_FIELD_NUMBER: _ClassVar[int]
    PAGE_FIELD_NUMBER: _ClassVar[int]
    namespaces: _containers.RepeatedCompositeFieldContainer[Namespace]
    page: _common_pb2.PageResponse
    def __init__(self, namespaces: _Optional[_Iterable[_Union[Namespace, _Mapping]]] = ..., page: _Optional[_Union[_common_pb2.PageResponse, _Mapping]] = ...) -> None: ...

class GetNamespaceRequest(_message.Message):
    __slots__ = ("namespace", "reference")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    REFERENCE_FIELD_NUMBER: _ClassVar[int]
    namespace: _common_pb2.ContentRef
    reference: str
    def __init__(self, namespace: _Optional[_Union[_common_pb2.ContentRef, _Mapping]] = ..., reference: _Optional[str] = ...) -> None: ...

class GetNamespaceResponse(_message.Message):
    __slots__ = ("namespace",)
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    namespace: Namespace
    def __init__(self, namespace: _Optional[_Union[Namespace, _Mapping]] = ...) -> None: ...

class CreateNamespaceRequest(_message.Message):
    __slots__ = ("idempotency", "name", "reference", "properties")
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
    PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    idempotency: _common_pb2.Idempotency
    name: _common_pb2.Name
    reference: str
    properties: _containers.ScalarMap[str, str]
    def __init__(self, idempotency: _Optional[_Union[_common_pb2.Idempotency, _Mapping]] = ..., name: _Optional[_Union[_common_pb2.Name, _Mapping]] = ..., reference: _Optional[str] = ..., properties: _Optional[_Mapping[str, str]] = ...) -> None: ...

class CreateNamespaceResponse(_message.Message):
    __slots__ = ("namespace", "meta")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    META_FIELD_NUMBER: _ClassVar[int]
    namespace: Namespace
    meta: _common_pb2.MutationMeta
    def __init__(self, namespace: _Optional[_Union[Namespace, _Mapping]] = ..., meta: _Optional[_Union[_common_pb2.MutationMeta, _Mapping]] = ...) -> None: ...

class UpdateNamespaceRequest(_message.Message):
    __slots__ = ("idempotency", "target", "reference", "namespace", "update_mask", "precondition")
    IDEMPOTENCY_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    REFERENCE_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    UPDATE_MASK_FIELD_NUMBER: _ClassVar[int]
    PRECONDITION_FIELD_NUMBER: _ClassVar[int]
    idempotency: _common_pb2.Idempotency
    target: _common_pb2.ContentRef
    reference: str
    namespace: Namespace
    update_mask: _field_mask_pb2.FieldMask
    precondition: _common_pb2.Precondition
    def __init__(self, idempotency: _Optional[_Union[_common_pb2.Idempotency, _Mapping]] = ..., target: _Optional[_Union[_common_pb2.ContentRef, _Mapping]] = ..., reference: _Optional[str] = ..., namespace: _Optional[_Union[Namespace, _Mapping]] = ..., update_mask: _Optional[_Union[_field_mask_pb2.FieldMask, _Mapping]] = ..., precondition: _Optional[_Union[_common_pb2.Precondition, _Mapping]] = ...) -> None: ...

class UpdateNamespaceResponse(_message.Message):
    __slots__ = ("namespace", "meta")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    META_FIELD_NUMBER: _ClassVar[int]
    namespace: Namespace
    meta: _common_pb2.MutationMeta
    def __init__(self, namespace: _Optional[_Union[Namespace, _Mapping]] = ..., meta: _Optional[_Union[_common_pb2.MutationMeta, _Mapping]] = ...) -> None: ...

class DeleteNamespaceRequest(_message.Message):
    __slots__ = ("idempotency", "namespace", "reference", "require_empty", "precondition")
    IDEMPOTENCY_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    REFERENCE_FIELD_NUMBER: _ClassVar[int]
    REQUIRE_EMPTY_FIELD_NUMBER: _ClassVar[int]
    PRECONDITION_FIELD_NUMBER: _ClassVar[int]
    idempotency: _common_pb2.Idempotency
    namespace: _common_pb2.ContentRef
    reference: str
    require_empty: bool
    precondition: _common_pb2.Precondition
    def __init__(self, idempotency: _Optional[_Union[_common_pb2.Idempotency, _Mapping]] = ..., namespace: _Optional[_Union[_common_pb2.ContentRef, _Mapping]] = ..., reference: _Optional[str] = ..., require_empty: _Optional[bool] = ..., precondition: _Optional[_Union[_common_pb2.Precondition, _Mapping]] = ...) -> None: ...

class DeleteNamespaceResponse(_message.Message):
    __slots__ = ("meta",)
    META_FIELD_NUMBER: _ClassVar[int]
    meta: _common_pb2.MutationMeta
    def __init__(self, meta: _Optional[_Union[_common_pb2.MutationMeta, _Mapping]] = ...) -> None: ...
