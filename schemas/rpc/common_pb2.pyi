from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ResourceKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RESOURCE_KIND_UNSPECIFIED: _ClassVar[ResourceKind]
    RESOURCE_KIND_CATALOG: _ClassVar[ResourceKind]
    RESOURCE_KIND_NAMESPACE: _ClassVar[ResourceKind]
    RESOURCE_KIND_TABLE: _ClassVar[ResourceKind]
    RESOURCE_KIND_VIEW: _ClassVar[ResourceKind]
RESOURCE_KIND_UNSPECIFIED: ResourceKind
RESOURCE_KIND_CATALOG: ResourceKind
RESOURCE_KIND_NAMESPACE: ResourceKind
RESOURCE_KIND_TABLE: ResourceKind
RESOURCE_KIND_VIEW: ResourceKind

class MutationMeta(_message.Message):
    __slots__ = ("pointer", "seq", "entry_id", "version", "etag", "time", "changed", "replayed")
    POINTER_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    ENTRY_ID_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    ETAG_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    REPLAYED_FIELD_NUMBER: _ClassVar[int]
    pointer: str
    seq: int
    entry_id: str
    version: str
    etag: str
    time: str
    changed: bool
    replayed: bool
    def __init__(self, pointer: _Optional[str] = ..., seq: _Optional[int] = ..., entry_id: _Optional[str] = ..., version: _Optional[str] = ..., etag: _Optional[str] = ..., time: _Optional[str] = ..., changed: _Optional[bool] = ..., replayed: _Optional[bool] = ...) -> None: ...

class Idempotency(_message.Message):
    __slots__ = ("key",)
    KEY_FIELD_NUMBER: _ClassVar[int]
    key: str
    def __init__(self, key: _Optional[str] = ...) -> None: ...

class Precondition(_message.Message):
    __slots__ = ("expected_version",)
    EXPECTED_VERSION_FIELD_NUMBER: _ClassVar[int]
    expected_version: str
    def __init__(self, expected_version: _Optional[str] = ...) -> None: ...

class PageRequest(_message.Message):
    __slots__ = ("size", "token")
    SIZE_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    size: int
    token: str
    def __init__(self, size: _Optional[int] = ..., token: _Optional[str] = ...) -> None: ...

class PageResponse(_message.Message):
    __slots__ = ("next_token",)
    NEXT_TOKEN_FIELD_NUMBER: _ClassVar[int]
    next_token: str
    def __init__(self, next_token: _Optional[str] = ...) -> None: ...

class ResourceId(_message.Message):
    __slots__ = ("realm", "kind", "catalog_id", "id")
    REALM_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    CATALOG_ID_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    realm: str
    kind: ResourceKind
    catalog_id: int
    id: str
    def __init__(self, realm: _Optional[str] = ..., kind: _Optional[_Union[ResourceKind, str]] = ..., catalog_id: _Optional[int] = ..., id: _Optional[str] = ...) -> None: ...

class Name(_message.Message):
    __slots__ = ("catalog", "path")
    CATALOG_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    catalog: str
    path: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, catalog: _Optional[str] = ..., path: _Optional[_Iterable[str]] = ...) -> None: ...

class ContentRef(_message.Message):
    __slots__ = ("id", "name")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    id: ResourceId
    name: Name
    def __init__(self, id: _Optional[_Union[ResourceId, _Mapping]] = ..., name: _Optional[_Union[Name, _Mapping]] = ...) -> None: ...

class Error(_message.Message):
    __slots__ = ("code", "message_key", "params", "correlation_id", "remedy", "facts")
    class ParamsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_KEY_FIELD_NUMBER: _ClassVar[int]
    PARAMS_FIELD_NUMBER: _ClassVar[int]
    CORRELATION_ID_FIELD_NUMBER: _ClassVar[int]
    REMEDY_FIELD_NUMBER: _ClassVar[int]
    FACTS_FIELD_NUMBER: _ClassVar[int]
    code: str
    message_key: str
    params: _containers.ScalarMap[str, str]
    correlation_id: str
    remedy: str
    facts: str
    def __init__(self, code: _Optional[str] = ..., message_key: _Optional[str] = ..., params: _Optional[_Mapping[str, str]] = ..., correlation_id: _Optional[str] = ..., remedy: _Optional[str] = ..., facts: _Optional[str] = ...) -> None: ...

class PrincipalContext(_message.Message):
    __slots__ = ("realm", "principal")
    REALM_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    realm: str
    principal: str
    def __init__(self, realm: _Optional[str] = ..., principal: _Optional[str] = ...) -> None: ...
