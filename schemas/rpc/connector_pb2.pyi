from google.protobuf import field_mask_pb2 as _field_mask_pb2
from headwater.schemas.rpc import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ConnectorStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CONNECTOR_STATUS_UNSPECIFIED: _ClassVar[ConnectorStatus]
    CONNECTOR_STATUS_ACTIVE: _ClassVar[ConnectorStatus]
    CONNECTOR_STATUS_PAUSED: _ClassVar[ConnectorStatus]
CONNECTOR_STATUS_UNSPECIFIED: ConnectorStatus
CONNECTOR_STATUS_ACTIVE: ConnectorStatus
CONNECTOR_STATUS_PAUSED: ConnectorStatus

class Connector(_message.Message):
    __slots__ = ("name", "source", "uri", "properties", "secret_ref", "roots", "catalog", "branch", "path", "status", "interval_seconds", "description", "version")
    class PropertiesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    URI_FIELD_NUMBER: _ClassVar[int]
    PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    SECRET_REF_FIELD_NUMBER: _ClassVar[int]
    ROOTS_FIELD_NUMBER: _ClassVar[int]
    CATALOG_FIELD_NUMBER: _ClassVar[int]
    BRANCH_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    INTERVAL_SECONDS_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    name: str
    source: str
    uri: str
    properties: _containers.ScalarMap[str, str]
    secret_ref: str
    roots: _containers.RepeatedScalarFieldContainer[str]
    catalog: str
    branch: str
    path: _containers.RepeatedScalarFieldContainer[str]
    status: ConnectorStatus
    interval_seconds: int
    description: str
    version: str
    def __init__(self, name: _Optional[str] = ..., source: _Optional[str] = ..., uri: _Optional[str] = ..., properties: _Optional[_Mapping[str, str]] = ..., secret_ref: _Optional[str] = ..., roots: _Optional[_Iterable[str]] = ..., catalog: _Optional[str] = ..., branch: _Optional[str] = ..., path: _Optional[_Iterable[str]] = ..., status: _Optional[_Union[ConnectorStatus, str]] = ..., interval_seconds: _Optional[int] = ..., description: _Optional[str] = ..., version: _Optional[str] = ...) -> None: ...

class ReconcileFailure(_message.Message):
    __slots__ = ("key", "code", "message")
    KEY_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    key: _containers.RepeatedScalarFieldContainer[str]
    code: str
    message: str
    def __init__(self, key: _Optional[_Iterable[str]] = ..., code: _Optional[str] = ..., message: _Optional[str] = ...) -> None: ...

class ScopePath(_message.Message):
    __slots__ = ("path",)
    PATH_FIELD_NUMBER: _ClassVar[int]
    path: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, path: _Optional[_Iterable[str]] = ...) -> None: ...

class ReconcileJob(_message.Message):
    __slots__ = ("id", "connector", "state", "full_rescan", "requested_by", "created", "started", "ended", "counters", "failures", "error", "scope")
    class CountersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    ID_FIELD_NUMBER: _ClassVar[int]
    CONNECTOR_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    FULL_RESCAN_FIELD_NUMBER: _ClassVar[int]
    REQUESTED_BY_FIELD_NUMBER: _ClassVar[int]
    CREATED_FIELD_NUMBER: _ClassVar[int]
    STARTED_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    COUNTERS_FIELD_NUMBER: _ClassVar[int]
    FAILURES_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    id: str
    connector: str
    state: str
    full_rescan: bool
    requested_by: str
    created: str
    started: str
    ended: str
    counters: _containers.ScalarMap[str, int]
    failures: _containers.RepeatedCompositeFieldContainer[ReconcileFailure]
    error: str
    scope: _containers.RepeatedCompositeFieldContainer[ScopePath]
    def __init__(self, id: _Optional[str] = ..., connector: _Optional[str] = ..., state: _Optional[str] = ..., full_rescan: _Optional[bool] = ..., requested_by: _Optional[str] = ..., created: _Optional[str] = ..., started: _Optional[str] = ..., ended: _Optional[str] = ..., counters: _Optional[_Mapping[str, int]] = ..., failures: _Optional[_Iterable[_Union[ReconcileFailure, _Mapping]]] = ..., error: _Optional[str] = ..., scope: _Optional[_Iterable[_Union[ScopePath, _Mapping]]] = ...) -> None: ...

class ListConnectorsRequest(_message.Message):
    __slots__ = ("page",)
    PAGE_FIELD_NUMBER: _ClassVar[int]
    page: _common_pb2.PageRequest
    def __init__(self, page: _Optional[_Union[_common_pb2.PageRequest, _Mapping]] = ...) -> None: ...

class ListConnectorsResponse(_message.Message):
    __slots__ = ("connectors", "page")
    CONNECTORS_FIELD_NUMBER: _ClassVar[int]
    PAGE_FIELD_NUMBER: _ClassVar[int]
    connectors: _containers.RepeatedCompositeFieldContainer[Connector]
    page: _common_pb2.PageResponse
    def __init__(self, connectors: _Optional[_Iterable[_Union[Connector, _Mapping]]] = ..., page: _Optional[_Union[_common_pb2.PageResponse, _Mapping]] = ...) -> None: ...

class GetConnectorRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class GetConnectorResponse(_message.Message):
    __slots__ = ("connector",)
    CONNECTOR_FIELD_NUMBER: _ClassVar[int]
    connector: Connector
    def __init__(self, connector: _Optional[_Union[Connector, _Mapping]] = ...) -> None: ...

class CreateConnectorRequest(_message.Message):
    __slots__ = ("idempotency", "connector")
    IDEMPOTENCY_FIELD_NUMBER: _ClassVar[int]
    CONNECTOR_FIELD_NUMBER: _ClassVar[int]
    idempotency: _common_pb2.Idempotency
    connector: Connector
    def __init__(self, idempotency: _Optional[_Union[_common_pb2.Idempotency, _Mapping]] = ..., connector: _Optional[_Union[Connector, _Mapping]] = ...) -> None: ...

class CreateConnectorResponse(_message.Message):
    __slots__ = ("connector", "meta")
    CONNECTOR_FIELD_NUMBER: _ClassVar[int]
    META_FIELD_NUMBER: _ClassVar[int]
    connector: Connector
    meta: _common_pb2.MutationMeta
    def __init__(self, connector: _Optional[_Union[Connector, _Mapping]] = ..., meta: _Optional[_Union[_common_pb2.MutationMeta, _Mapping]] = ...) -> None: ...

class UpdateConnectorRequest(_message.Message):
    __slots__ = ("idempotency", "precondition", "name", "update_mask", "connector")
    IDEMPOTENCY_FIELD_NUMBER: _ClassVar[int]
    PRECONDITION_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    UPDATE_MASK_FIELD_NUMBER: _ClassVar[int]
    CONNECTOR_FIELD_NUMBER: _ClassVar[int]
    idempotency: _common_pb2.Idempotency
    precondition: _common_pb2.Precondition
    name: str
    update_mask: _field_mask_pb2.FieldMask
    connector: Connector
    def __init__(self, idempotency: _Optional[_Union[_common_pb2.Idempotency, _Mapping]] = ..., precondition: _Optional[_Union[_common_pb2.Precondition, _Mapping]] = ..., name: _Optional[str] = ..., update_mask: _Optional[_Union[_field_mask_pb2.FieldMask, _Mapping]] = ..., connector: _Optional[_Union[Connector, _Mapping]] = ...) -> None: ...

class UpdateConnectorResponse(_message.Message):
    __slots__ = ("connector", "meta")
    CONNECTOR_FIELD_NUMBER: _ClassVar[int]
    META_FIELD_NUMBER: _ClassVar[int]
    connector: Connector
    meta: _common_pb2.MutationMeta
    def __init__(self, connector: _Optional[_Union[Connector, _Mapping]] = ..., meta: _Optional[_Union[_common_pb2.MutationMeta, _Mapping]] = ...) -> None: ...

class DeleteConnectorRequest(_message.Message):
    __slots__ = ("idempotency", "precondition", "name")
    IDEMPOTENCY_FIELD_NUMBER: _ClassVar[int]
    PRECONDITION_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    idempotency: _common_pb2.Idempotency
    precondition: _common_pb2.Precondition
    name: str
    def __init__(self, idempotency: _Optional[_Union[_common_pb2.Idempotency, _Mapping]] = ..., precondition: _Optional[_Union[_common_pb2.Precondition, _Mapping]] = ..., name: _Optional[str] = ...) -> None: ...

class DeleteConnectorResponse(_message.Message):
    __slots__ = ("meta",)
    META_FIELD_NUMBER: _ClassVar[int]
    meta: _common_pb2.MutationMeta
    def __init__(self, meta: _Optional[_Union[_common_pb2.MutationMeta, _Mapping]] = ...) -> None: ...

class ValidateConnectorRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class ValidateConnectorResponse(_message.Message):
    __slots__ = ("source", "has_log")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    HAS_LOG_FIELD_NUMBER: _ClassVar[int]
    source: str
    has_log: bool
    def __init__(self, source: _Optional[str] = ..., has_log: _Optional[bool] = ...) -> None: ...

class TriggerReconcileRequest(_message.Message):
    __slots__ = ("idempotency", "connector", "full_rescan", "scope")
    IDEMPOTENCY_FIELD_NUMBER: _ClassVar[int]
    CONNECTOR_FIELD_NUMBER: _ClassVar[int]
    FULL_RESCAN_FIELD_NUMBER: _ClassVar[int]
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    idempotency: _common_pb2.Idempotency
    connector: str
    full_rescan: bool
    scope: _containers.RepeatedCompositeFieldContainer[ScopePath]
    def __init__(self, idempotency: _Optional[_Union[_common_pb2.Idempotency, _Mapping]] = ..., connector: _Optional[str] = ..., full_rescan: _Optional[bool] = ..., scope: _Optional[_Iterable[_Union[ScopePath, _Mapping]]] = ...) -> None: ...

class TriggerReconcileResponse(_message.Message):
    __slots__ = ("job",)
    JOB_FIELD_NUMBER: _ClassVar[int]
    job: ReconcileJob
    def __init__(self, job: _Optional[_Union[ReconcileJob, _Mapping]] = ...) -> None: ...

class GetReconcileJobRequest(_message.Message):
    __slots__ = ("connector", "job")
    CONNECTOR_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    connector: str
    job: str
    def __init__(self, connector: _Optional[str] = ..., job: _Optional[str] = ...) -> None: ...

class GetReconcileJobResponse(_message.Message):
    __slots__ = ("job",)
    JOB_FIELD_NUMBER: _ClassVar[int]
    job: ReconcileJob
    def __init__(self, job: _Optional[_Union[ReconcileJob, _Mapping]] = ...) -> None: ...

class ListReconcileJobsRequest(_message.Message):
    __slots__ = ("connector",)
    CONNECTOR_FIELD_NUMBER: _ClassVar[int]
    connector: str
    def __init__(self, connector: _Optional[str] = ...) -> None: ...

class ListReconcileJobsResponse(_message.Message):
    __slots__ = ("jobs",)
    JOBS_FIELD_NUMBER: _ClassVar[int]
    jobs: _containers.RepeatedCompositeFieldContainer[ReconcileJob]
    def __init__(self, jobs: _Optional[_Iterable[_Union[ReconcileJob, _Mapping]]] = ...) -> None: ...

class CancelReconcileJobRequest(_message.Message):
    __slots__ = ("idempotency", "connector", "job")
    IDEMPOTENCY_FIELD_NUMBER: _ClassVar[int]
    CONNECTOR_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    idempotency: _common_pb2.Idempotency
    connector: str
    job: str
    def __init__(self, idempotency: _Optional[_Union[_common_pb2.Idempotency, _Mapping]] = ..., connector: _Optional[str] = ..., job: _Optional[str] = ...) -> None: ...

class CancelReconcileJobResponse(_message.Message):
    __slots__ = ("job",)
    JOB_FIELD_NUMBER: _ClassVar[int]
    job: ReconcileJob
    def __init__(self, job: _Optional[_Union[ReconcileJob, _Mapping]] = ...) -> None: ...
