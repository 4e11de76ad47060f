from headwater.schemas.rpc import common_pb2 as _common_pb2
from headwater.schemas.rpc import change_pb2 as _change_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Range(_message.Message):
    __slots__ = ("to",)
    FROM_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    to: int
    def __init__(self, to: _Optional[int] = ..., **kwargs) -> None: ...

class Head(_message.Message):
    __slots__ = ("seq", "entry_id", "commit_id")
    SEQ_FIELD_NUMBER: _ClassVar[int]
    ENTRY_ID_FIELD_NUMBER: _ClassVar[int]
    COMMIT_ID_FIELD_NUMBER: _ClassVar[int]
    seq: int
    entry_id: str
    commit_id: str
    def __init__(self, seq: _Optional[int] = ..., entry_id: _Optional[str] = ..., commit_id: _Optional[str] = ...) -> None: ...

class Filter(_message.Message):
    __slots__ = ("kinds", "operations", "types", "prefix", "content_ids")
    KINDS_FIELD_NUMBER: _ClassVar[int]
    OPERATIONS_FIELD_NUMBER: _ClassVar[int]
    TYPES_FIELD_NUMBER: _ClassVar[int]
    PREFIX_FIELD_NUMBER: _ClassVar[int]
    CONTENT_IDS_FIELD_NUMBER: _ClassVar[int]
    kinds: _containers.RepeatedScalarFieldContainer[str]
    operations: _containers.RepeatedScalarFieldContainer[str]
    types: _containers.RepeatedScalarFieldContainer[str]
    prefix: _containers.RepeatedScalarFieldContainer[str]
    content_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, kinds: _Optional[_Iterable[str]] = ..., operations: _Optional[_Iterable[str]] = ..., types: _Optional[_Iterable[str]] = ..., prefix: _Optional[_Iterable[str]] = ..., content_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class FeedSource(_message.Message):
    __slots__ = ("pointers", "catalog", "branch")
    POINTERS_FIELD_NUMBER: _ClassVar[int]
    CATALOG_FIELD_NUMBER: _ClassVar[int]
    BRANCH_FIELD_NUMBER: _ClassVar[int]
    pointers: _containers.RepeatedScalarFieldContainer[str]
    catalog: str
    branch: str
    def __init__(self, pointers: _Optional[_Iterable[str]] = ..., catalog: _Optional[str] = ..., branch: _Optional[str] = ...) -> None: ...

class ListPointersRequest(_message.Message):
    __slots__ = ("prefix", "page")
    PREFIX_FIELD_NUMBER: _ClassVar[int]
    PAGE_FIELD_NUMBER: _ClassVar[int]
    prefix: str
    page: _common_pb2.PageRequest
    def __init__(self, prefix: _Optional[str] = ..., page: _Optional[_Union[_common_pb2.PageRequest, _Mapping]] = ...) -> None: ...

class PointerInfo(_message.Message):
    __slots__ = ("name", "kind", "seq", "commit_id", "oldest_seq", "deleted", "entry_id")
    NAME_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    COMMIT_ID_FIELD_NUMBER: _ClassVar[int]
    OLDEST_SEQ_FIELD_NUMBER: _ClassVar[int]
    DELETED_FIELD_NUMBER: _ClassVar[int]
    ENTRY_ID_FIELD_NUMBER: _ClassVar[int]
    name: str
    kind: str
    seq: int
    commit_id: str
    oldest_seq: int
    deleted: bool
    entry_id: str
    def __init__(self, name: _Optional[str] = ..., kind: _Optional[str] = ..., seq: _Optional[int] = ..., commit_id: _Optional[str] = ..., oldest_seq: _Optional[int] = ..., deleted: _Optional[bool] = ..., entry_id: _Optional[str] = ...) -> None: ...

class ListPointersResponse(_message.Message):
    __slots__ = ("pointers", "page", "realm_instance")
    POINTERS_FIELD_NUMBER: _ClassVar[int]
    PAGE_FIELD_NUMBER: _ClassVar[int]
    REALM_INSTANCE_FIELD_NUMBER: _ClassVar[int]
    pointers: _containers.RepeatedCompositeFieldContainer[PointerInfo]
    page: _common_pb2.PageResponse
    realm_instance: str
    def __init__(self, pointers: _Optional[_Iterable[_Union[PointerInfo, _Mapping]]] = ..., page: _Optional[_Union[_common_pb2.PageResponse, _Mapping]] = ..., realm_instance: _Optional[str] = ...) -> None: ...

class GetChangesRequest(_message.Message):
    __slots__ = ("source", "after", "filter", "limit", "wait_seconds")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    WAIT_SECONDS_FIELD_NUMBER: _ClassVar[int]
    source: FeedSource
    after: str
    filter: Filter
    limit: int
    wait_seconds: float
    def __init__(self, source: _Optional[_Union[FeedSource, _Mapping]] = ..., after: _Optional[str] = ..., filter: _Optional[_Union[Filter, _Mapping]] = ..., limit: _Optional[int] = ..., wait_seconds: _Optional[float] = ...) -> None: ...

class LargeChange(_message.Message):
    __slots__ = ("pointer", "seq", "entry_id", "bytes")
    POINTER_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    ENTRY_ID_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    pointer: str
    seq: int
    entry_id: str
    bytes: int
    def __init__(self, pointer: _Optional[str] = ..., seq: _Optional[int] = ..., entry_id: _Optional[str] = ..., bytes: _Optional[int] = ...) -> None: ...

class Frame(_message.Message):
    __slots__ = ("changes", "ranges", "heads", "cursor", "withheld", "large")
    class RangesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: Range
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[Range, _Mapping]] = ...) -> None: ...
    class HeadsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: Head
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[Head, _Mapping]] = ...) -> None: ...
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    RANGES_FIELD_NUMBER: _ClassVar[int]
    HEADS_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    WITHHELD_FIELD_NUMBER: _ClassVar[int]
    LARGE_FIELD_NUMBER: _ClassVar[int]
    changes: _containers.RepeatedCompositeFieldContainer[_change_pb2.Change]
    ranges: _containers.MessageMap[str, Range]
    heads: _containers.MessageMap[str, Head]
    cursor: str
    withheld: bool
    large: _containers.RepeatedCompositeFieldContainer[LargeChange]
    def __init__(self, changes: _Optional[_Iterable[_Union[_change_pb2.Change, _Mapping]]] = ..., ranges: _Optional[_Mapping[str, Range]] = ..., heads: _Optional[_Mapping[str, Head]] = ..., cursor: _Optional[str] = ..., withheld: _Optional[bool] = ..., large: _Optional[_Iterable[_Union[LargeChange, _Mapping]]] = ...) -> None: ...

class GetChangesResponse(_message.Message):
    __slots__ = ("frame",)
    FRAME_FIELD_NUMBER: _ClassVar[int]
    frame: Frame
    def __init__(self, frame: _Optional[_Union[Frame, _Mapping]] = ...) -> None: ...

class GetChangeRequest(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class Chunk(_message.Message):
    __slots__ = ("data", "offset", "total_bytes")
    DATA_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    TOTAL_BYTES_FIELD_NUMBER: _ClassVar[int]
    data: bytes
    offset: int
    total_bytes: int
    def __init__(self, data: _Optional[bytes] = ..., offset: _Optional[int] = ..., total_bytes: _Optional[int] = ...) -> None: ...

class GetChangeResponse(_message.Message):
    __slots__ = ("change", "chunk")
    CHANGE_FIELD_NUMBER: _ClassVar[int]
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    change: _change_pb2.Change
    chunk: Chunk
    def __init__(self, change: _Optional[_Union[_change_pb2.Change, _Mapping]] = ..., chunk: _Optional[_Union[Chunk, _Mapping]] = ...) -> None: ...

class GetSnapshotRequest(_message.Message):
    __slots__ = ("source", "at", "token")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    source: FeedSource
    at: str
    token: str
    def __init__(self, source: _Optional[_Union[FeedSource, _Mapping]] = ..., at: _Optional[str] = ..., token: _Optional[str] = ...) -> None: ...

class SnapshotEntry(_message.Message):
    __slots__ = ("key", "type", "content_id", "value", "value_omitted")
    KEY_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    CONTENT_ID_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    VALUE_OMITTED_FIELD_NUMBER: _ClassVar[int]
    key: _containers.RepeatedScalarFieldContainer[str]
    type: str
    content_id: str
    value: str
    value_omitted: bool
    def __init__(self, key: _Optional[_Iterable[str]] = ..., type: _Optional[str] = ..., content_id: _Optional[str] = ..., value: _Optional[str] = ..., value_omitted: _Optional[bool] = ...) -> None: ...

class GetSnapshotResponse(_message.Message):
    __slots__ = ("pointer", "at", "entries", "cursor", "token")
    POINTER_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    pointer: str
    at: Head
    entries: _containers.RepeatedCompositeFieldContainer[SnapshotEntry]
    cursor: str
    token: str
    def __init__(self, pointer: _Optional[str] = ..., at: _Optional[_Union[Head, _Mapping]] = ..., entries: _Optional[_Iterable[_Union[SnapshotEntry, _Mapping]]] = ..., cursor: _Optional[str] = ..., token: _Optional[str] = ...) -> None: ...

class GetReferenceLogRequest(_message.Message):
    __slots__ = ("catalog", "kinds", "page")
    CATALOG_FIELD_NUMBER: _ClassVar[int]
    KINDS_FIELD_NUMBER: _ClassVar[int]
    PAGE_FIELD_NUMBER: _ClassVar[int]
    catalog: str
    kinds: _containers.RepeatedScalarFieldContainer[str]
    page: _common_pb2.PageRequest
    def __init__(self, catalog: _Optional[str] = ..., kinds: _Optional[_Iterable[str]] = ..., page: _Optional[_Union[_common_pb2.PageRequest, _Mapping]] = ...) -> None: ...

class LoggedMove(_message.Message):
    __slots__ = ("change", "large")
    CHANGE_FIELD_NUMBER: _ClassVar[int]
    LARGE_FIELD_NUMBER: _ClassVar[int]
    change: _change_pb2.Change
    large: LargeChange
    def __init__(self, change: _Optional[_Union[_change_pb2.Change, _Mapping]] = ..., large: _Optional[_Union[LargeChange, _Mapping]] = ...) -> None: ...

class GetReferenceLogResponse(_message.Message):
    __slots__ = ("moves", "withheld", "page")
    MOVES_FIELD_NUMBER: _ClassVar[int]
    WITHHELD_FIELD_NUMBER: _ClassVar[int]
    PAGE_FIELD_NUMBER: _ClassVar[int]
    moves: _containers.RepeatedCompositeFieldContainer[LoggedMove]
    withheld: bool
    page: _common_pb2.PageResponse
    def __init__(self, moves: _Optional[_Iterable[_Union[LoggedMove, _Mapping]]] = ..., withheld: _Optional[bool] = ..., page: _Optional[_Union[_common_pb2.PageResponse, _Mapping]] = ...) -> None: ...

class SubscribeRequest(_message.Message):
    __slots__ = ("source", "after", "filter", "heartbeat_seconds")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_SECONDS_FIELD_NUMBER: _ClassVar[int]
    source: FeedSource
    after: str
    filter: Filter
    heartbeat_seconds: float
    def __init__(self, source: _Optional[_Union[FeedSource, _Mapping]] = ..., after: _Optional[str] = ..., filter: _Optional[_Union[Filter, _Mapping]] = ..., heartbeat_seconds: _Optional[float] = ...) -> None: ...

class End(_message.Message):
    __slots__ = ("reason", "cursor")
    REASON_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    reason: str
    cursor: str
    def __init__(self, reason: _Optional[str] = ..., cursor: _Optional[str] = ...) -> None: ...

class SubscribeResponse(_message.Message):
    __slots__ = ("frame", "chunk", "end")
    FRAME_FIELD_NUMBER: _ClassVar[int]
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    frame: Frame
    chunk: Chunk
    end: End
    def __init__(self, frame: _Optional[_Union[Frame, _Mapping]] = ..., chunk: _Optional[_Union[Chunk, _Mapping]] = ..., end: _Optional[_Union[End, _Mapping]] = ...) -> None: ...

class Operation(_message.Message):
    __slots__ = ("op", "key", "type", "content", "expected", "expected_type", "expected_content_id", "must_not_exist", "content_id", "from_key")
    OP_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_TYPE_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_CONTENT_ID_FIELD_NUMBER: _ClassVar[int]
    MUST_NOT_EXIST_FIELD_NUMBER: _ClassVar[int]
    CONTENT_ID_FIELD_NUMBER: _ClassVar[int]
    FROM_KEY_FIELD_NUMBER: _ClassVar[int]
    op: str
    key: _containers.RepeatedScalarFieldContainer[str]
    type: str
    content: str
    expected: str
    expected_type: str
    expected_content_id: str
    must_not_exist: bool
    content_id: str
    from_key: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, op: _Optional[str] = ..., key: _Optional[_Iterable[str]] = ..., type: _Optional[str] = ..., content: _Optional[str] = ..., expected: _Optional[str] = ..., expected_type: _Optional[str] = ..., expected_content_id: _Optional[str] = ..., must_not_exist: _Optional[bool] = ..., content_id: _Optional[str] = ..., from_key: _Optional[_Iterable[str]] = ...) -> None: ...

class CommitRequest(_message.Message):
    __slots__ = ("idempotency", "catalog", "branch", "operations", "author", "message", "headers", "expected_head", "base_commit")
    class HeadersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    IDEMPOTENCY_FIELD_NUMBER: _ClassVar[int]
    CATALOG_FIELD_NUMBER: _ClassVar[int]
    BRANCH_FIELD_NUMBER: _ClassVar[int]
    OPERATIONS_FIELD_NUMBER: _ClassVar[int]
    AUTHOR_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    HEADERS_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_HEAD_FIELD_NUMBER: _ClassVar[int]
    BASE_COMMIT_FIELD_NUMBER: _ClassVar[int]
    idempotency: _common_pb2.Idempotency
    catalog: str
    branch: str
    operations: _containers.RepeatedCompositeFieldContainer[Operation]
    author: str
    message: str
    headers: _containers.ScalarMap[str, str]
    expected_head: str
    base_commit: str
    def __init__(self, idempotency: _Optional[_Union[_common_pb2.Idempotency, _Mapping]] = ..., catalog: _Optional[str] = ..., branch: _Optional[str] = ..., operations: _Optional[_Iterable[_Union[Operation, _Mapping]]] = ..., author: _Optional[str] = ..., message: _Optional[str] = ..., headers: _Optional[_Mapping[str, str]] = ..., expected_head: _Optional[str] = ..., base_commit: _Optional[str] = ...) -> None: ...

class CommitResponse(_message.Message):
    __slots__ = ("meta", "commit_id", "change")
    META_FIELD_NUMBER: _ClassVar[int]
    COMMIT_ID_FIELD_NUMBER: _ClassVar[int]
    CHANGE_FIELD_NUMBER: _ClassVar[int]
    meta: _common_pb2.MutationMeta
    commit_id: str
    change: _change_pb2.Change
    def __init__(self, meta: _Optional[_Union[_common_pb2.MutationMeta, _Mapping]] = ..., commit_id: _Optional[str] = ..., change: _Optional[_Union[_change_pb2.Change, _Mapping]] = ...) -> None: ...

class Position(_message.Message):
    __slots__ = ("seq", "entry_id")
    SEQ_FIELD_NUMBER: _ClassVar[int]
    ENTRY_ID_FIELD_NUMBER: _ClassVar[int]
    seq: int
    entry_id: str
    def __init__(self, seq: _Optional[int] = ..., entry_id: _Optional[str] = ...) -> None: ...

class Subscription(_message.Message):
    __slots__ = ("name", "version", "positions", "filter", "pin_seconds", "pinned_until", "created", "updated", "lag", "cursor")
    class PositionsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: Position
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[Position, _Mapping]] = ...) -> None: ...
    class LagEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    POSITIONS_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    PIN_SECONDS_FIELD_NUMBER: _ClassVar[int]
    PINNED_UNTIL_FIELD_NUMBER: _ClassVar[int]
    CREATED_FIELD_NUMBER: _ClassVar[int]
    UPDATED_FIELD_NUMBER: _ClassVar[int]
    LAG_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    name: str
    version: str
    positions: _containers.MessageMap[str, Position]
    filter: Filter
    pin_seconds: int
    pinned_until: str
    created: str
    updated: str
    lag: _containers.ScalarMap[str, int]
    cursor: str
    def __init__(self, name: _Optional[str] = ..., version: _Optional[str] = ..., positions: _Optional[_Mapping[str, Position]] = ..., filter: _Optional[_Union[Filter, _Mapping]] = ..., pin_seconds: _Optional[int] = ..., pinned_until: _Optional[str] = ..., created: _Optional[str] = ..., updated: _Optional[str] = ..., lag: _Optional[_Mapping[str, int]] = ..., cursor: _Optional[str] = ...) -> None: ...

class CreateSubscriptionRequest(_message.Message):
    __slots__ = ("idempotency", "name", "pointers", "after", "filter", "pin_seconds")
    IDEMPOTENCY_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    POINTERS_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    PIN_SECONDS_FIELD_NUMBER: _ClassVar[int]
    idempotency: _common_pb2.Idempotency
    name: str
    pointers: _containers.RepeatedScalarFieldContainer[str]
    after: str
    filter: Filter
    pin_seconds: int
    def __init__(self, idempotency: _Optional[_Union[_common_pb2.Idempotency, _Mapping]] = ..., name: _Optional[str] = ..., pointers: _Optional[_Iterable[str]] = ..., after: _Optional[str] = ..., filter: _Optional[_Union[Filter, _Mapping]] = ..., pin_seconds: _Optional[int] = ...) -> None: ...

class CreateSubscriptionResponse(_message.Message):
    __slots__ = ("subscription", "created")
    SUBSCRIPTION_FIELD_NUMBER: _ClassVar[int]
    CREATED_FIELD_NUMBER: _ClassVar[int]
    subscription: Subscription
    created: bool
    def __init__(self, subscription: _Optional[_Union[Subscription, _Mapping]] = ..., created: _Optional[bool] = ...) -> None: ...

class GetSubscriptionRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class GetSubscriptionResponse(_message.Message):
    __slots__ = ("subscription",)
    SUBSCRIPTION_FIELD_NUMBER: _ClassVar[int]
    subscription: Subscription
    def __init__(self, subscription: _Optional[_Union[Subscription, _Mapping]] = ...) -> None: ...

class ReadSubscriptionRequest(_message.Message):
    __slots__ = ("name", "limit", "wait_seconds")
    NAME_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    WAIT_SECONDS_FIELD_NUMBER: _ClassVar[int]
    name: str
    limit: int
    wait_seconds: float
    def __init__(self, name: _Optional[str] = ..., limit: _Optional[int] = ..., wait_seconds: _Optional[float] = ...) -> None: ...

class ReadSubscriptionResponse(_message.Message):
    __slots__ = ("frame", "version", "positions")
    class PositionsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: Position
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[Position, _Mapping]] = ...) -> None: ...
    FRAME_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    POSITIONS_FIELD_NUMBER: _ClassVar[int]
    frame: Frame
    version: str
    positions: _containers.MessageMap[str, Position]
    def __init__(self, frame: _Optional[_Union[Frame, _Mapping]] = ..., version: _Optional[str] = ..., positions: _Optional[_Mapping[str, Position]] = ...) -> None: ...

class DeleteSubscriptionRequest(_message.Message):
    __slots__ = ("idempotency", "name", "precondition")
    IDEMPOTENCY_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    PRECONDITION_FIELD_NUMBER: _ClassVar[int]
    idempotency: _common_pb2.Idempotency
    name: str
    precondition: _common_pb2.Precondition
    def __init__(self, idempotency: _Optional[_Union[_common_pb2.Idempotency, _Mapping]] = ..., name: _Optional[str] = ..., precondition: _Optional[_Union[_common_pb2.Precondition, _Mapping]] = ...) -> None: ...

class DeleteSubscriptionResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class AcknowledgeRequest(_message.Message):
    __slots__ = ("idempotency", "name", "version", "positions", "cursor")
    class PositionsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: Position
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[Position, _Mapping]] = ...) -> None: ...
    IDEMPOTENCY_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    POSITIONS_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    idempotency: _common_pb2.Idempotency
    name: str
    version: str
    positions: _containers.MessageMap[str, Position]
    cursor: str
    def __init__(self, idempotency: _Optional[_Union[_common_pb2.Idempotency, _Mapping]] = ..., name: _Optional[str] = ..., version: _Optional[str] = ..., positions: _Optional[_Mapping[str, Position]] = ..., cursor: _Optional[str] = ...) -> None: ...

class AcknowledgeResponse(_message.Message):
    __slots__ = ("subscription",)
    SUBSCRIPTION_FIELD_NUMBER: _ClassVar[int]
    subscription: Subscription
    def __init__(self, subscription: _Optional[_Union[Subscription, _Mapping]] = ...) -> None: ...

class RewindRequest(_message.Message):
    __slots__ = ("idempotency", "name", "version", "after", "pointers")
    IDEMPOTENCY_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    POINTERS_FIELD_NUMBER: _ClassVar[int]
    idempotency: _common_pb2.Idempotency
    name: str
    version: str
    after: str
    pointers: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, idempotency: _Optional[_Union[_common_pb2.Idempotency, _Mapping]] = ..., name: _Optional[str] = ..., version: _Optional[str] = ..., after: _Optional[str] = ..., pointers: _Optional[_Iterable[str]] = ...) -> None: ...

class RewindResponse(_message.Message):
    __slots__ = ("subscription",)
    SUBSCRIPTION_FIELD_NUMBER: _ClassVar[int]
    subscription: Subscription
    def __init__(self, subscription: _Optional[_Union[Subscription, _Mapping]] = ...) -> None: ...
