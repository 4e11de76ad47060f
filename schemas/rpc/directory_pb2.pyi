from headwater.schemas.rpc import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Resolved(_message.Message):
    __slots__ = ("name", "resource_id")
    NAME_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_ID_FIELD_NUMBER: _ClassVar[int]
    name: _common_pb2.Name
    resource_id: _common_pb2.ResourceId
    def __init__(self, name: _Optional[_Union[_common_pb2.Name, _Mapping]] = ..., resource_id: _Optional[_Union[_common_pb2.ResourceId, _Mapping]] = ...) -> None: ...

class ResolveCatalogRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class ResolveCatalogResponse(_message.Message):
    __slots__ = ("resource_id",)
    RESOURCE_ID_FIELD_NUMBER: _ClassVar[int]
    resource_id: _common_pb2.ResourceId
    def __init__(self, resource_id: _Optional[_Union[_common_pb2.ResourceId, _Mapping]] = ...) -> None: ...

class ResolveNamespaceRequest(_message.Message):
    __slots__ = ("name", "reference")
    NAME_FIELD_NUMBER: _ClassVar[int]
    REFERENCE_FIELD_NUMBER: _ClassVar[int]
    name: _common_pb2.Name
    reference: str
    def __init__(self, name: _Optional[_Union[_common_pb2.Name, _Mapping]] = ..., reference: _Optional[str] = ...) -> None: ...

class ResolveNamespaceResponse(_message.Message):
    __slots__ = ("resource_id",)
    RESOURCE_ID_FIELD_NUMBER: _ClassVar[int]
    resource_id: _common_pb2.ResourceId
    def __init__(self, resource_id: _Optional[_Union[_common_pb2.ResourceId, _Mapping]] = ...) -> None: ...

class ResolveTableRequest(_message.Message):
    __slots__ = ("name", "reference")
    NAME_FIELD_NUMBER: _ClassVar[int]
    REFERENCE_FIELD_NUMBER: _ClassVar[int]
    name: _common_pb2.Name
    reference: str
    def __init__(self, name: _Optional[_Union[_common_pb2.Name, _Mapping]] = ..., reference: _Optional[str] = ...) -> None: ...

class ResolveTableResponse(_message.Message):
    __slots__ = ("resource_id",)
    RESOURCE_ID_FIELD_NUMBER: _ClassVar[int]
    resource_id: _common_pb2.ResourceId
    def __init__(self, resource_id: _Optional[_Union[_common_pb2.ResourceId, _Mapping]] = ...) -> None: ...

class ResolveViewRequest(_message.Message):
    __slots__ = ("name", "reference")
    NAME_FIELD_NUMBER: _ClassVar[int]
    REFERENCE_FIELD_NUMBER: _ClassVar[int]
    name: _common_pb2.Name
    reference: str
    def __init__(self, name: _Optional[_Union[_common_pb2.Name, _Mapping]] = ..., reference: _Optional[str] = ...) -> None: ...

class ResolveViewResponse(_message.Message):
    __slots__ = ("resource_id",)
    RESOURCE_ID_FIELD_NUMBER: _ClassVar[int]
    resource_id: _common_pb2.ResourceId
    def __init__(self, resource_id: _Optional[_Union[_common_pb2.ResourceId, _Mapping]] = ...) -> None: ...

class ResolveFQTablesRequest(_message.Message):
    __slots__ = ("names", "reference")
    NAMES_FIELD_NUMBER: _ClassVar[int]
    REFERENCE_FIELD_NUMBER: _ClassVar[int]
    names: _containers.RepeatedCompositeFieldContainer[_common_pb2.Name]
    reference: str
    def __init__(self, names: _Optional[_Iterable[_Union[_common_pb2.Name, _Mapping]]] = ..., reference: _Optional[str] = ...) -> None: ...

class ResolveFQTablesResponse(_message.Message):
    __slots__ = ("tables",)
    TABLES_FIELD_NUMBER: _ClassVar[int]
    tables: _containers.RepeatedCompositeFieldContainer[Resolved]
    def __init__(self, tables: _Optional[_Iterable[_Union[Resolved, _Mapping]]] = ...) -> None: ...

class ResolveFQViewsRequest(_message.Message):
    __slots__ = ("names", "reference")
    NAMES_FIELD_NUMBER: _ClassVar[int]
    REFERENCE_FIELD_NUMBER: _ClassVar[int]
    names: _containers.RepeatedCompositeFieldContainer[_common_pb2.Name]
    reference: str
    def __init__(self, names: _Optional[_Iterable[_Union[_common_pb2.Name, _Mapping]]] = ..., reference: _Optional[str] = ...) -> None: ...

class ResolveFQViewsResponse(_message.Message):
    __slots__ = ("views",)
    VIEWS_FIELD_NUMBER: _ClassVar[int]
    views: _containers.RepeatedCompositeFieldContainer[Resolved]
    def __init__(self, views: _Optional[_Iterable[_Union[Resolved, _Mapping]]] = ...) -> None: ...

class LookupCatalogRequest(_message.Message):
    __slots__ = ("resource_id",)
    RESOURCE_ID_FIELD_NUMBER: _ClassVar[int]
    resource_id: _common_pb2.ResourceId
    def __init__(self, resource_id: _Optional[_Union[_common_pb2.ResourceId, _Mapping]] = ...) -> None: ...

class LookupCatalogResponse(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class LookupNamespaceRequest(_message.Message):
    __slots__ = ("resource_id", "reference")
    RESOURCE_ID_FIELD_NUMBER: _ClassVar[int]
    REFERENCE_FIELD_NUMBER: _ClassVar[int]
    resource_id: _common_pb2.ResourceId
    reference: str
    def __init__(self, resource_id: _Optional[_Union[_common_pb2.ResourceId, _Mapping]] = ..., reference: _Optional[str] = ...) -> None: ...

class LookupNamespaceResponse(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: _common_pb2.Name
    def __init__(self, name: _Optional[_Union[_common_pb2.Name, _Mapping]] = ...) -> None: ...

class LookupTableRequest(_message.Message):
    __slots__ = ("resource_id", "reference")
    RESOURCE_ID_FIELD_NUMBER: _ClassVar[int]
    REFERENCE_FIELD_NUMBER: _ClassVar[int]
    resource_id: _common_pb2.ResourceId
    reference: str
    def __init__(self, resource_id: _Optional[_Union[_common_pb2.ResourceId, _Mapping]] = ..., reference: _Optional[str] = ...) -> None: ...

class LookupTableResponse(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: _common_pb2.Name
    def __init__(self, name: _Optional[_Union[_common_pb2.Name, _Mapping]] = ...) -> None: ...

class LookupViewRequest(_message.Message):
    __slots__ = ("resource_id", "reference")
    RESOURCE_ID_FIELD_NUMBER: _ClassVar[int]
    REFERENCE_FIELD_NUMBER: _ClassVar[int]
    resource_id: _common_pb2.ResourceId
    reference: str
    def __init__(self, resource_id: _Optional[_Union[_common_pb2.ResourceId, _Mapping]] = ..., reference: _Optional[str] = ...) -> None: ...

class LookupViewResponse(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: _common_pb2.Name
    def __init__(self, name: _Optional[_Union[_common_pb2.Name, _Mapping]] = ...) -> None: ...
