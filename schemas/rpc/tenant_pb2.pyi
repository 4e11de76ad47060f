from google.protobuf import field_mask_pb2 as _field_mask_pb2
from headwater.schemas.rpc import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Tenant(_message.Message):
    __slots__ = ("name", "instance", "status", "created", "updated", "version", "description")
    NAME_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    CREATED_FIELD_NUMBER: _ClassVar[int]
    UPDATED_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    name: str
    instance: str
    status: str
    created: str
    updated: str
    version: str
    description: str
    def __init__(self, name: _Optional[str] = ..., instance: _Optional[str] = ..., status: _Optional[str] = ..., created: _Optional[str] = ..., updated: _Optional[str] = ..., version: _Optional[str] = ..., description: _Optional[str] = ...) -> None: ...

class Credentials(_message.Message):
    __slots__ = ("principal", "client_id", "client_secret")
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_SECRET_FIELD_NUMBER: _ClassVar[int]
    principal: str
    client_id: str
    client_secret: str
    def __init__(self, principal: _Optional[str] = ..., client_id: _Optional[str] = ..., client_secret: _Optional[str] = ...) -> None: ...

class ListTenantsRequest(_message.Message):
    __slots__ = ("page",)
    PAGE_FIELD_NUMBER: _ClassVar[int]
    page: _common_pb2.PageRequest
    def __init__(self, page: _Optional[_Union[_common_pb2.PageRequest, _Mapping]] = ...) -> None: ...

class ListTenantsResponse(_message.Message):
    __slots__ = ("tenants", "page")
    TENANTS_FIELD_NUMBER: _ClassVar[int]
    PAGE_FIELD_NUMBER: _ClassVar[int]
    tenants: _containers.RepeatedCompositeFieldContainer[Tenant]
    page: _common_pb2.PageResponse
    def __init__(self, tenants: _Optional[_Iterable[_Union[Tenant, _Mapping]]] = ..., page: _Optional[_Union[_common_pb2.PageResponse, _Mapping]] = ...) -> None: ...

class GetTenantRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class GetTenantResponse(_message.Message):
    __slots__ = ("tenant",)
    TENANT_FIELD_NUMBER: _ClassVar[int]
    tenant: Tenant
    def __init__(self, tenant: _Optional[_Union[Tenant, _Mapping]] = ...) -> None: ...

class CreateTenantRequest(_message.Message):
    __slots__ = ("idempotency", "name", "description")
    IDEMPOTENCY_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    idempotency: _common_pb2.Idempotency
    name: str
    description: str
    def __init__(self, idempotency: _Optional[_Union[_common_pb2.Idempotency, _Mapping]] = ..., name: _Optional[str] = ..., description: _Optional[str] = ...) -> None: ...

class CreateTenantResponse(_message.Message):
    __slots__ = ("tenant", "credentials", "meta")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    CREDENTIALS_FIELD_NUMBER: _ClassVar[int]
    META_FIELD_NUMBER: _ClassVar[int]
    tenant: Tenant
    credentials: Credentials
    meta: _common_pb2.MutationMeta
    def __init__(self, tenant: _Optional[_Union[Tenant, _Mapping]] = ..., credentials: _Optional[_Union[Credentials, _Mapping]] = ..., meta: _Optional[_Union[_common_pb2.MutationMeta, _Mapping]] = ...) -> None: ...

class UpdateTenantRequest(_message.Message):
    __slots__ = ("idempotency", "name", "status", "precondition", "tenant", "update_mask")
    IDEMPOTENCY_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    PRECONDITION_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    UPDATE_MASK_FIELD_NUMBER: _ClassVar[int]
    idempotency: _common_pb2.Idempotency
    name: str
    status: str
    precondition: _common_pb2.Precondition
    tenant: Tenant
    update_mask: _field_mask_pb2.FieldMask
    def __init__(self, idempotency: _Optional[_Union[_common_pb2.Idempotency, _Mapping]] = ..., name: _Optional[str] = ..., status: _Optional[str] = ..., precondition: _Optional[_Union[_common_pb2.Precondition, _Mapping]] = ..., tenant: _Optional[_Union[Tenant, _Mapping]] = ..., update_mask: _Optional[_Union[_field_mask_pb2.FieldMask, _Mapping]] = ...) -> None: ...

class UpdateTenantResponse(_message.Message):
    __slots__ = ("tenant", "meta")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    META_FIELD_NUMBER: _ClassVar[int]
    tenant: Tenant
    meta: _common_pb2.MutationMeta
    def __init__(self, tenant: _Optional[_Union[Tenant, _Mapping]] = ..., meta: _Optional[_Union[_common_pb2.MutationMeta, _Mapping]] = ...) -> None: ...

class DeleteTenantRequest(_message.Message):
    __slots__ = ("idempotency", "name", "purge", "precondition")
    IDEMPOTENCY_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    PURGE_FIELD_NUMBER: _ClassVar[int]
    PRECONDITION_FIELD_NUMBER: _ClassVar[int]
    idempotency: _common_pb2.Idempotency
    name: str
    purge: bool
    precondition: _common_pb2.Precondition
    def __init__(self, idempotency: _Optional[_Union[_common_pb2.Idempotency, _Mapping]] = ..., name: _Optional[str] = ..., purge: _Optional[bool] = ..., precondition: _Optional[_Union[_common_pb2.Precondition, _Mapping]] = ...) -> None: ...

class DeleteTenantResponse(_message.Message):
    __slots__ = ("meta",)
    META_FIELD_NUMBER: _ClassVar[int]
    meta: _common_pb2.MutationMeta
    def __init__(self, meta: _Optional[_Union[_common_pb2.MutationMeta, _Mapping]] = ...) -> None: ...

class CreateTokenRequest(_message.Message):
    __slots__ = ("client_id", "client_secret", "subject_token")
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_SECRET_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_TOKEN_FIELD_NUMBER: _ClassVar[int]
    client_id: str
    client_secret: str
    subject_token: str
    def __init__(self, client_id: _Optional[str] = ..., client_secret: _Optional[str] = ..., subject_token: _Optional[str] = ...) -> None: ...

class CreateTokenResponse(_message.Message):
    __slots__ = ("access_token", "expires_in_seconds")
    ACCESS_TOKEN_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_IN_SECONDS_FIELD_NUMBER: _ClassVar[int]
    access_token: str
    expires_in_seconds: int
    def __init__(self, access_token: _Optional[str] = ..., expires_in_seconds: _Optional[int] = ...) -> None: ...
