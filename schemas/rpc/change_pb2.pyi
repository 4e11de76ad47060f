from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Operation(_message.Message):
    __slots__ = ("op", "key", "content_id", "type", "before", "after", "from_key")
    OP_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    CONTENT_ID_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    FROM_KEY_FIELD_NUMBER: _ClassVar[int]
    op: str
    key: _containers.RepeatedScalarFieldContainer[str]
    content_id: str
    type: str
    before: str
    after: str
    from_key: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, op: _Optional[str] = ..., key: _Optional[_Iterable[str]] = ..., content_id: _Optional[str] = ..., type: _Optional[str] = ..., before: _Optional[str] = ..., after: _Optional[str] = ..., from_key: _Optional[_Iterable[str]] = ...) -> None: ...

class Base(_message.Message):
    __slots__ = ("pointer", "seq", "commit_id")
    POINTER_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    COMMIT_ID_FIELD_NUMBER: _ClassVar[int]
    pointer: str
    seq: int
    commit_id: str
    def __init__(self, pointer: _Optional[str] = ..., seq: _Optional[int] = ..., commit_id: _Optional[str] = ...) -> None: ...

class Source(_message.Message):
    __slots__ = ("pointer", "commit_id")
    POINTER_FIELD_NUMBER: _ClassVar[int]
    COMMIT_ID_FIELD_NUMBER: _ClassVar[int]
    pointer: str
    commit_id: str
    def __init__(self, pointer: _Optional[str] = ..., commit_id: _Optional[str] = ...) -> None: ...

class Change(_message.Message):
    __slots__ = ("realm", "pointer", "seq", "entry_id", "kind", "commit_id", "parent_id", "head_before", "time", "author", "message", "headers", "request_id", "operations", "objects_added", "objects_released", "base", "source")
    class HeadersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    REALM_FIELD_NUMBER: _ClassVar[int]
    POINTER_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    ENTRY_ID_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    COMMIT_ID_FIELD_NUMBER: _ClassVar[int]
    PARENT_ID_FIELD_NUMBER: _ClassVar[int]
    HEAD_BEFORE_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    AUTHOR_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    HEADERS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    OPERATIONS_FIELD_NUMBER: _ClassVar[int]
    OBJECTS_ADDED_FIELD_NUMBER: _ClassVar[int]
    OBJECTS_RELEASED_FIELD_NUMBER: _ClassVar[int]
    BASE_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    realm: str
    pointer: str
    seq: int
    entry_id: str
    kind: str
    commit_id: str
    parent_id: str
    head_before: str
    time: str
    author: str
    message: str
    headers: _containers.ScalarMap[str, str]
    request_id: str
    operations: _containers.RepeatedCompositeFieldContainer[Operation]
    objects_added: _containers.RepeatedScalarFieldContainer[str]
    objects_released: _containers.RepeatedScalarFieldContainer[str]
    base: Base
    source: Source
    def __init__(self, realm: _Optional[str] = ..., pointer: _Optional[str] = ..., seq: _Optional[int] = ..., entry_id: _Optional[str] = ..., kind: _Optional[str] = ..., commit_id: _Optional[str] = ..., parent_id: _Optional[str] = ..., head_before: _Optional[str] = ..., time: _Optional[str] = ..., author: _Optional[str] = ..., message: _Optional[str] = ..., headers: _Optional[_Mapping[str, str]] = ..., request_id: _Optional[str] = ..., operations: _Optional[_Iterable[_Union[Operation, _Mapping]]] = ..., objects_added: _Optional[_Iterable[str]] = ..., objects_released: _Optional[_Iterable[str]] = ..., base: _Optional[_Union[Base, _Mapping]] = ..., source: _Optional[_Union[Source, _Mapping]] = ...) -> None: ...
