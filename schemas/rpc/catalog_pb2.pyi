from google.protobuf import field_mask_pb2 as _field_mask_pb2
from headwater.schemas.rpc import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Catalog(_message.Message):
    __slots__ = ("resource_id", "name", "storage_root", "default_branch", "properties", "created", "created_by", "version")
    class PropertiesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    RESOURCE_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    STORAGE_ROOT_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_BRANCH_FIELD_NUMBER: _ClassVar[int]
    PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    CREATED_FIELD_NUMBER: _ClassVar[int]
    CREATED_BY_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    resource_id: _common_pb2.ResourceId
    name: str
    storage_root: str
    default_branch: str
    properties: _containers.ScalarMap[str, str]
    created: str
    created_by: str
    version: str
    def __init__(self, resource_id: _Optional[_Union[_common_pb2.ResourceId, _Mapping]] = ..., name: _Optional[str] = ..., storage_root: _Optional[str] = ..., default_branch: _Optional[str] = ..., properties: _Optional[_Mapping[str, str]] = ..., created: _Optional[str] = ..., created_by: _Optional[str] = ..., version: _Optional[str] = ...) -> None: ...

class ListCatalogsRequest(_message.Message):
    __slots__ = ("page",)
    PAGE_FIELD_NUMBER: _ClassVar[int]
    page: _common_pb2.PageRequest
    def __init__(self, page: _Optional[_Union[_common_pb2.PageRequest, _Mapping]] = ...) -> None: ...

class ListCatalogsResponse(_message.Message):
    __slots__ = ("catalogs", "page")
    CATALOGS_FIELD_NUMBER: _ClassVar[int]
    PAGE_FIELD_NUMBER: _ClassVar[int]
    catalogs: _containers.RepeatedCompositeFieldContainer[Catalog]
    page: _common_pb2.PageResponse
    def __init__(self, catalogs: _Optional[_Iterable[_Union[Catalog, _Mapping]]] = ..., page: _Optional[_Union[_common_pb2.PageResponse, _Mapping]] = ...) -> None: ...

class GetCatalogRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class GetCatalogResponse(_message.Message):
    __slots__ = ("catalog",)
    CATALOG_FIELD_NUMBER: _ClassVar[int]
    catalog: Catalog
    def __init__(self, catalog: _Optional[_Union[Catalog, _Mapping]] = ...) -> None: ...

class CreateCatalogRequest(_message.Message):
    __slots__ = ("idempotency", "name", "storage_root", "default_branch", "properties")
    class PropertiesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    IDEMPOTENCY_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    STORAGE_ROOT_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_BRANCH_FIELD_NUMBER: _ClassVar[int]
    PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    idempotency: _common_pb2.Idempotency
    name: str
    storage_root: str
    default_branch: str
    properties: _containers.ScalarMap[str, str]
    def __init__(self, idempotency: _Optional[_Union[_common_pb2.Idempotency, _Mapping]] = ..., name: _Optional[str] = ..., storage_root: _Optional[str] = ..., default_branch: _Optional[str] = ..., properties: _Optional[_Mapping[str, str]] = ...) -> None: ...

class CreateCatalogResponse(_message.Message):
    __slots__ = ("catalog", "meta")
    CATALOG_FIELD_NUMBER: _ClassVar[int]
    META_FIELD_NUMBER: _ClassVar[int]
    catalog: Catalog
    meta: _common_pb2.MutationMeta
    def __init__(self, catalog: _Optional[_Union[Catalog, _Mapping]] = ..., meta: _Optional[_Union[_common_pb2.MutationMeta, _Mapping]] = ...) -> None: ...

class UpdateCatalogRequest(_message.Message):
    __slots__ = ("idempotency", "name", "catalog", "update_mask", "precondition")
    IDEMPOTENCY_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    CATALOG_FIELD_NUMBER: _ClassVar[int]
    UPDATE_MASK_FIELD_NUMBER: _ClassVar[int]
    PRECONDITION_FIELD_NUMBER: _ClassVar[int]
    idempotency: _common_pb2.Idempotency
    name: str
    catalog: Catalog
    update_mask: _field_mask_pb2.FieldMask
    precondition: _common_pb2.Precondition
    def __init__(self, idempotency: _Optional[_Union[_common_pb2.Idempotency, _Mapping]] = ..., name: _Optional[str] = ..., catalog: _Optional[_Union[Catalog, _Mapping]] = ..., update_mask: _Optional[_Union[_field_mask_pb2.FieldMask, _Mapping]] = ..., precondition: _Optional[_Union[_common_pb2.Precondition, _Mapping]] = ...) -> None: ...

class UpdateCatalogResponse(_message.Message):
    __slots__ = ("catalog", "meta")
    CATALOG_FIELD_NUMBER: _ClassVar[int]
    META_FIELD_NUMBER: _ClassVar[int]
    catalog: Catalog
    meta: _common_pb2.MutationMeta
    def __init__(self, catalog: _Optional[_Union[Catalog, _Mapping]] = ..., meta: _Optional[_Union[_common_pb2.MutationMeta, _Mapping]] = ...) -> None: ...

class DeleteCatalogRequest(_message.Message):
    __slots__ = ("idempotency", "name", "require_empty", "purge", "precondition")
    IDEMPOTENCY_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    REQUIRE_EMPTY_FIELD_NUMBER: _ClassVar[int]
    PURGE_FIELD_NUMBER: _ClassVar[int]
    PRECONDITION_FIELD_NUMBER: _ClassVar[int]
    idempotency: _common_pb2.Idempotency
    name: str
    require_empty: bool
    purge: bool
    precondition: _common_pb2.Precondition
    def __init__(self, idempotency: _Optional[_Union[_common_pb2.Idempotency, _Mapping]] = ..., name: _Optional[str] = ..., require_empty: _Optional[bool] = ..., purge: _Optional[bool] = ..., precondition: _Optional[_Union[_common_pb2.Precondition, _Mapping]] = ...) -> None: ...

class DeleteCatalogResponse(_message.Message):
    __slots__ = ("meta",)
    META_FIELD_NUMBER: _ClassVar[int]
    meta: _common_pb2.MutationMeta
    def __init__(self, meta: _Optional[_Union[_common_pb2.MutationMeta, _Mapping]] = ...) -> None: ...
