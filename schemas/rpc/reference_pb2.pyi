from headwater.schemas.rpc import common_pb2 as _common_pb2
from headwater.schemas.rpc import change_pb2 as _change_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Reference(_message.Message):
    __slots__ = ("name", "type", "pointer", "commit_id", "seq", "oldest_seq", "time", "deleted")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    POINTER_FIELD_NUMBER: _ClassVar[int]
    COMMIT_ID_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    OLDEST_SEQ_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    DELETED_FIELD_NUMBER: _ClassVar[int]
    name: str
    type: str
    pointer: str
    commit_id: str
    seq: int
    oldest_seq: int
    time: str
    deleted: bool
    def __init__(self, name: _Optional[str] = ..., type: _Optional[str] = ..., pointer: _Optional[str] = ..., commit_id: _Optional[str] = ..., seq: _Optional[int] = ..., oldest_seq: _Optional[int] = ..., time: _Optional[str] = ..., deleted: _Optional[bool] = ...) -> None: ...

class ListReferencesRequest(_message.Message):
    __slots__ = ("catalog", "type", "deleted", "page")
    CATALOG_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    DELETED_FIELD_NUMBER: _ClassVar[int]
    PAGE_FIELD_NUMBER: _ClassVar[int]
    catalog: str
    type: str
    deleted: bool
    page: _common_pb2.PageRequest
    def __init__(self, catalog: _Optional[str] = ..., type: _Optional[str] = ..., deleted: _Optional[bool] = ..., page: _Optional[_Union[_common_pb2.PageRequest, _Mapping]] = ...) -> None: ...

class ListReferencesResponse(_message.Message):
    __slots__ = ("references", "page")
    REFERENCES_FIELD_NUMBER: _ClassVar[int]
    PAGE_FIELD_NUMBER: _ClassVar[int]
    references: _containers.RepeatedCompositeFieldContainer[Reference]
    page: _common_pb2.PageResponse
    def __init__(self, references: _Optional[_Iterable[_Union[Reference, _Mapping]]] = ..., page: _Optional[_Union[_common_pb2.PageResponse, _Mapping]] = ...) -> None: ...

class GetReferenceRequest(_message.Message):
    __slots__ = ("catalog", "name", "type")
    CATALOG_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    catalog: str
    name: str
    type: str
    def __init__(self, catalog: _Optional[str] = ..., name: _Optional[str] = ..., type: _Optional[str] = ...) -> None: ...

class GetReferenceResponse(_message.Message):
    __slots__ = ("reference",)
    REFERENCE_FIELD_NUMBER: _ClassVar[int]
    reference: Reference
    def __init__(self, reference: _Optional[_Union[Reference, _Mapping]] = ...) -> None: ...

class CreateReferenceRequest(_message.Message):
    __slots__ = ("idempotency", "catalog", "name", "type", "source", "author", "message")
    IDEMPOTENCY_FIELD_NUMBER: _ClassVar[int]
    CATALOG_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    AUTHOR_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    idempotency: _common_pb2.Idempotency
    catalog: str
    name: str
    type: str
    source: str
    author: str
    message: str
    def __init__(self, idempotency: _Optional[_Union[_common_pb2.Idempotency, _Mapping]] = ..., catalog: _Optional[str] = ..., name: _Optional[str] = ..., type: _Optional[str] = ..., source: _Optional[str] = ..., author: _Optional[str] = ..., message: _Optional[str] = ...) -> None: ...

class CreateReferenceResponse(_message.Message):
    __slots__ = ("reference", "meta")
    REFERENCE_FIELD_NUMBER: _ClassVar[int]
    META_FIELD_NUMBER: _ClassVar[int]
    reference: Reference
    meta: _common_pb2.MutationMeta
    def __init__(self, reference: _Optional[_Union[Reference, _Mapping]] = ..., meta: _Optional[_Union[_common_pb2.MutationMeta, _Mapping]] = ...) -> None: ...

class AssignReferenceRequest(_message.Message):
    __slots__ = ("idempotency", "catalog", "name", "type", "target", "author", "message", "precondition", "expected_head")
    IDEMPOTENCY_FIELD_NUMBER: _ClassVar[int]
    CATALOG_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    AUTHOR_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    PRECONDITION_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_HEAD_FIELD_NUMBER: _ClassVar[int]
    idempotency: _common_pb2.Idempotency
    catalog: str
    name: str
    type: str
    target: str
    author: str
    message: str
    precondition: _common_pb2.Precondition
    expected_head: str
    def __init__(self, idempotency: _Optional[_Union[_common_pb2.Idempotency, _Mapping]] = ..., catalog: _Optional[str] = ..., name: _Optional[str] = ..., type: _Optional[str] = ..., target: _Optional[str] = ..., author: _Optional[str] = ..., message: _Optional[str] = ..., precondition: _Optional[_Union[_common_pb2.Precondition, _Mapping]] = ..., expected_head: _Optional[str] = ...) -> None: ...

class AssignReferenceResponse(_message.Message):
    __slots__ = ("reference", "meta")
    REFERENCE_FIELD_NUMBER: _ClassVar[int]
    META_FIELD_NUMBER: _ClassVar[int]
    reference: Reference
    meta: _common_pb2.MutationMeta
    def __init__(self, reference: _Optional[_Union[Reference, _Mapping]] = ..., meta: _Optional[_Union[_common_pb2.MutationMeta, _Mapping]] = ...) -> None: ...

class DeleteReferenceRequest(_message.Message):
    __slots__ = ("idempotency", "catalog", "name", "type", "author", "message", "precondition")
    IDEMPOTENCY_FIELD_NUMBER: _ClassVar[int]
    CATALOG_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    AUTHOR_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    PRECONDITION_FIELD_NUMBER: _ClassVar[int]
    idempotency: _common_pb2.Idempotency
    catalog: str
    name: str
    type: str
    author: str
    message: str
    precondition: _common_pb2.Precondition
    def __init__(self, idempotency: _Optional[_Union[_common_pb2.Idempotency, _Mapping]] = ..., catalog: _Optional[str] = ..., name: _Optional[str] = ..., type: _Optional[str] = ..., author: _Optional[str] = ..., message: _Optional[str] = ..., precondition: _Optional[_Union[_common_pb2.Precondition, _Mapping]] = ...) -> None: ...

class DeleteReferenceResponse(_message.Message):
    __slots__ = ("meta",)
    META_FIELD_NUMBER: _ClassVar[int]
    meta: _common_pb2.MutationMeta
    def __init__(self, meta: _Optional[_Union[_common_pb2.MutationMeta, _Mapping]] = ...) -> None: ...

class KeyContent(_message.Message):
    __slots__ = ("type", "content_id", "value")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    CONTENT_ID_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    type: str
    content_id: str
    value: str
    def __init__(self, type: _Optional[str] = ..., content_id: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...

class ContentOrAbsent(_message.Message):
    __slots__ = ("content",)
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    content: KeyContent
    def __init__(self, content: _Optional[_Union[KeyContent, _Mapping]] = ...) -> None: ...

class KeyRule(_message.Message):
    __slots__ = ("key", "behavior", "expected", "resolved")
    KEY_FIELD_NUMBER: _ClassVar[int]
    BEHAVIOR_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_FIELD_NUMBER: _ClassVar[int]
    RESOLVED_FIELD_NUMBER: _ClassVar[int]
    key: _containers.RepeatedScalarFieldContainer[str]
    behavior: str
    expected: ContentOrAbsent
    resolved: ContentOrAbsent
    def __init__(self, key: _Optional[_Iterable[str]] = ..., behavior: _Optional[str] = ..., expected: _Optional[_Union[ContentOrAbsent, _Mapping]] = ..., resolved: _Optional[_Union[ContentOrAbsent, _Mapping]] = ...) -> None: ...

class MergeInto(_message.Message):
    __slots__ = ("branch", "author", "message", "default_behavior", "rules", "expected_head")
    BRANCH_FIELD_NUMBER: _ClassVar[int]
    AUTHOR_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_BEHAVIOR_FIELD_NUMBER: _ClassVar[int]
    RULES_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_HEAD_FIELD_NUMBER: _ClassVar[int]
    branch: str
    author: str
    message: str
    default_behavior: str
    rules: _containers.RepeatedCompositeFieldContainer[KeyRule]
    expected_head: str
    def __init__(self, branch: _Optional[str] = ..., author: _Optional[str] = ..., message: _Optional[str] = ..., default_behavior: _Optional[str] = ..., rules: _Optional[_Iterable[_Union[KeyRule, _Mapping]]] = ..., expected_head: _Optional[str] = ...) -> None: ...

class MergeRequest(_message.Message):
    __slots__ = ("idempotency", "catalog", "source", "into")
    IDEMPOTENCY_FIELD_NUMBER: _ClassVar[int]
    CATALOG_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    INTO_FIELD_NUMBER: _ClassVar[int]
    idempotency: _common_pb2.Idempotency
    catalog: str
    source: str
    into: MergeInto
    def __init__(self, idempotency: _Optional[_Union[_common_pb2.Idempotency, _Mapping]] = ..., catalog: _Optional[str] = ..., source: _Optional[str] = ..., into: _Optional[_Union[MergeInto, _Mapping]] = ...) -> None: ...

class MergeResponse(_message.Message):
    __slots__ = ("meta", "commit_id", "change")
    META_FIELD_NUMBER: _ClassVar[int]
    COMMIT_ID_FIELD_NUMBER: _ClassVar[int]
    CHANGE_FIELD_NUMBER: _ClassVar[int]
    meta: _common_pb2.MutationMeta
    commit_id: str
    change: _change_pb2.Change
    def __init__(self, meta: _Optional[_Union[_common_pb2.MutationMeta, _Mapping]] = ..., commit_id: _Optional[str] = ..., change: _Optional[_Union[_change_pb2.Change, _Mapping]] = ...) -> None: ...

class PreviewMergeRequest(_message.Message):
    __slots__ = ("catalog", "source", "into")
    CATALOG_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    INTO_FIELD_NUMBER: _ClassVar[int]
    catalog: str
    source: str
    into: MergeInto
    def __init__(self, catalog: _Optional[str] = ..., source: _Optional[str] = ..., into: _Optional[_Union[MergeInto, _Mapping]] = ...) -> None: ...

class MergedKey(_message.Message):
    __slots__ = ("key", "verdict", "conflict_kind", "conflict_message")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    CONFLICT_KIND_FIELD_NUMBER: _ClassVar[int]
    CONFLICT_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    key: _containers.RepeatedScalarFieldContainer[str]
    verdict: str
    conflict_kind: str
    conflict_message: str
    def __init__(self, key: _Optional[_Iterable[str]] = ..., verdict: _Optional[str] = ..., conflict_kind: _Optional[str] = ..., conflict_message: _Optional[str] = ...) -> None: ...

class PreviewMergeResponse(_message.Message):
    __slots__ = ("base", "already_merged", "keys")
    BASE_FIELD_NUMBER: _ClassVar[int]
    ALREADY_MERGED_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    base: str
    already_merged: bool
    keys: _containers.RepeatedCompositeFieldContainer[MergedKey]
    def __init__(self, base: _Optional[str] = ..., already_merged: _Optional[bool] = ..., keys: _Optional[_Iterable[_Union[MergedKey, _Mapping]]] = ...) -> None: ...

class TransplantRequest(_message.Message):
    __slots__ = ("idempotency", "catalog", "commits", "into")
    IDEMPOTENCY_FIELD_NUMBER: _ClassVar[int]
    CATALOG_FIELD_NUMBER: _ClassVar[int]
    COMMITS_FIELD_NUMBER: _ClassVar[int]
    INTO_FIELD_NUMBER: _ClassVar[int]
    idempotency: _common_pb2.Idempotency
    catalog: str
    commits: _containers.RepeatedScalarFieldContainer[str]
    into: MergeInto
    def __init__(self, idempotency: _Optional[_Union[_common_pb2.Idempotency, _Mapping]] = ..., catalog: _Optional[str] = ..., commits: _Optional[_Iterable[str]] = ..., into: _Optional[_Union[MergeInto, _Mapping]] = ...) -> None: ...

class TransplantResponse(_message.Message):
    __slots__ = ("meta", "commit_id", "change")
    META_FIELD_NUMBER: _ClassVar[int]
    COMMIT_ID_FIELD_NUMBER: _ClassVar[int]
    CHANGE_FIELD_NUMBER: _ClassVar[int]
    meta: _common_pb2.MutationMeta
    commit_id: str
    change: _change_pb2.Change
    def __init__(self, meta: _Optional[_Union[_common_pb2.MutationMeta, _Mapping]] = ..., commit_id: _Optional[str] = ..., change: _Optional[_Union[_change_pb2.Change, _Mapping]] = ...) -> None: ...

class DiffRequest(_message.Message):
    __slots__ = ("catalog", "before", "after", "page")
    CATALOG_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    PAGE_FIELD_NUMBER: _ClassVar[int]
    catalog: str
    before: str
    after: str
    page: _common_pb2.PageRequest
    def __init__(self, catalog: _Optional[str] = ..., before: _Optional[str] = ..., after: _Optional[str] = ..., page: _Optional[_Union[_common_pb2.PageRequest, _Mapping]] = ...) -> None: ...

class DiffEntry(_message.Message):
    __slots__ = ("key", "before", "after")
    KEY_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    key: _containers.RepeatedScalarFieldContainer[str]
    before: KeyContent
    after: KeyContent
    def __init__(self, key: _Optional[_Iterable[str]] = ..., before: _Optional[_Union[KeyContent, _Mapping]] = ..., after: _Optional[_Union[KeyContent, _Mapping]] = ...) -> None: ...

class DiffResponse(_message.Message):
    __slots__ = ("before", "after", "entries", "page")
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    PAGE_FIELD_NUMBER: _ClassVar[int]
    before: str
    after: str
    entries: _containers.RepeatedCompositeFieldContainer[DiffEntry]
    page: _common_pb2.PageResponse
    def __init__(self, before: _Optional[str] = ..., after: _Optional[str] = ..., entries: _Optional[_Iterable[_Union[DiffEntry, _Mapping]]] = ..., page: _Optional[_Union[_common_pb2.PageResponse, _Mapping]] = ...) -> None: ...
