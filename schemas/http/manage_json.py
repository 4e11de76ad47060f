"""JSON bodies of the management API: the server encodes them, clients decode them, the OpenAPI shows them."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

Properties = dict[str, str]
Path = list[str]


class MutationMeta(msgspec.Struct, frozen=True, kw_only=True):
    """What a write did to the log."""

    pointer: str
    seq: int
    """The seq of its entry, or of the head if there was nothing to do."""
    entry_id: str
    version: str | None = None
    """The record's version afterwards; None if the record was deleted."""
    etag: str | None = None
    """The same as a header value: send it as If-Match."""
    time: str | None = None
    changed: bool
    """False if the record was in that state already."""
    replayed: bool
    """An earlier request with the same Idempotency-Key did it."""


class Body(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is sent; a name that is not known is refused."""


class Gone(msgspec.Struct, frozen=True, kw_only=True):
    meta: MutationMeta


# ── realms ──────────────────────────────────────────────────────────────────────────────────────────────────


class RealmBody(Body, frozen=True, kw_only=True):
    name: str
    initialize: bool = True
    """Fill and open it too; the answer then carries the first principal's secret, once."""
    description: str = ""


class RealmChange(Body, frozen=True, kw_only=True):
    """Fields that are left out stay as they are."""

    description: str | None = None
    status: str | None = None
    """ACTIVE or INACTIVE: opens or closes it. The status that it has already is refused."""


class RealmInfo(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    instance: str
    status: str
    created: str
    updated: str
    version: str
    description: str = ""


class SecretShown(msgspec.Struct, frozen=True, kw_only=True):
    """⚠ Shown once: the store has only a hash of it. A repeated answer has no secret: reset the secret then."""

    principal: str
    client_id: str
    client_secret: str | None


class RealmMade(msgspec.Struct, frozen=True, kw_only=True):
    realm: RealmInfo
    credentials: SecretShown | None = None
    meta: MutationMeta


class RealmMoved(msgspec.Struct, frozen=True, kw_only=True):
    realm: RealmInfo
    meta: MutationMeta


class RealmsPage(msgspec.Struct, frozen=True, kw_only=True):
    realms: list[RealmInfo]
    next_token: str | None = None


# ── catalogs ────────────────────────────────────────────────────────────────────────────────────────────────


class CatalogBody(Body, frozen=True, kw_only=True):
    name: str
    storage_root: str = ""
    """Where the files of its tables lie, unless a table says otherwise: file:///…, s3://…, gs://…, abfss://…."""
    default_branch: str = "main"
    properties: Properties = {}


class CatalogChange(Body, frozen=True, kw_only=True):
    """Fields that are left out stay as they are."""

    storage_root: str | None = None
    properties: Properties | None = None


class CatalogInfo(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    id: int
    """Its pointers begin with `cat/{id}/`."""
    storage_root: str
    default_branch: str
    properties: Properties
    created: str
    created_by: str
    version: str


class CatalogWritten(msgspec.Struct, frozen=True, kw_only=True):
    catalog: CatalogInfo
    meta: MutationMeta


class CatalogsPage(msgspec.Struct, frozen=True, kw_only=True):
    catalogs: list[CatalogInfo]
    next_token: str | None = None


class NamespaceBody(Body, frozen=True, kw_only=True):
    path: Annotated[Path, Meta(min_length=1, max_length=100)]
    properties: Properties = {}


class NamespaceInfo(msgspec.Struct, frozen=True, kw_only=True):
    path: Path
    properties: Properties
    content_id: str


class NamespaceWritten(msgspec.Struct, frozen=True, kw_only=True):
    namespace: NamespaceInfo
    meta: MutationMeta


class NamespacesPage(msgspec.Struct, frozen=True, kw_only=True):
    namespaces: list[NamespaceInfo]
    next_token: str | None = None


class ReferenceBody(Body, frozen=True, kw_only=True):
    name: str
    type: str
    """branch or tag."""
    source: str | None = None
    """`name`, `name~n`, `name@commit`, a commit id …; the default branch, if left out."""
    author: str | None = None
    """Taken only where no token is asked for; else the author is the caller."""
    message: str = ""


class ReferenceTarget(Body, frozen=True, kw_only=True):
    target: str
    expected_head: str | None = None
    author: str | None = None
    """Taken only where no token is asked for; else the author is the caller."""
    message: str = ""


class ReferenceInfo(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    type: str
    pointer: str
    commit_id: str
    seq: int
    oldest_seq: int
    time: str
    deleted: bool


class ReferenceWritten(msgspec.Struct, frozen=True, kw_only=True):
    reference: ReferenceInfo
    meta: MutationMeta


class ReferencesPage(msgspec.Struct, frozen=True, kw_only=True):
    references: list[ReferenceInfo]
    next_token: str | None = None


# ── identities and rights ───────────────────────────────────────────────────────────────────────────────────


class PrincipalBody(Body, frozen=True, kw_only=True):
    name: str
    properties: Properties = {}
    with_secret: bool = True
    """Without one it is known by an external issuer alone."""


class PropertiesBody(Body, frozen=True, kw_only=True):
    properties: Properties


class RotationBody(Body, frozen=True, kw_only=True):
    overlap_seconds: Annotated[int, Meta(ge=0, le=30 * 24 * 3_600)] = 0
    """How long the previous secret stays valid."""


class SecretDates(msgspec.Struct, frozen=True, kw_only=True):
    created: str
    expires: str | None


class PrincipalInfo(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    client_id: str
    properties: Properties
    secrets: list[SecretDates]
    """The dates of the valid secrets; the secrets themselves are not stored."""
    created: str
    version: str


class PrincipalWritten(msgspec.Struct, frozen=True, kw_only=True):
    principal: PrincipalInfo
    credentials: SecretShown | None = None
    meta: MutationMeta


class PrincipalsPage(msgspec.Struct, frozen=True, kw_only=True):
    principals: list[PrincipalInfo]
    next_token: str | None = None


class EffectiveInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What a principal may do now, with all that its grants imply."""

    principal: str
    roles: list[str]
    realm: list[str]
    catalogs: dict[str, dict[str, list[Path]]]
    """By catalog and right: the paths at which the right is held; an empty path is the whole catalog."""


class RoleBody(Body, frozen=True, kw_only=True):
    name: str
    properties: Properties = {}


class RoleInfo(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    properties: Properties
    version: str


class RoleWritten(msgspec.Struct, frozen=True, kw_only=True):
    role: RoleInfo
    meta: MutationMeta


class RolesPage(msgspec.Struct, frozen=True, kw_only=True):
    roles: list[RoleInfo]
    next_token: str | None = None


class AssignmentInfo(msgspec.Struct, frozen=True, kw_only=True):
    member: str
    role: str


class AssignmentWritten(msgspec.Struct, frozen=True, kw_only=True):
    assignment: AssignmentInfo
    meta: MutationMeta


class AssignmentsPage(msgspec.Struct, frozen=True, kw_only=True):
    assignments: list[AssignmentInfo]


class GrantInfo(msgspec.Struct, frozen=True, kw_only=True):
    role: str
    right: str
    path: Path = []


class GrantWritten(msgspec.Struct, frozen=True, kw_only=True):
    grant: GrantInfo
    meta: MutationMeta


class GrantsPage(msgspec.Struct, frozen=True, kw_only=True):
    grants: list[GrantInfo]


class PolicyBody(Body, frozen=True, kw_only=True):
    name: str
    type: str
    content: dict[str, Any] = {}
    description: str = ""


class PolicyChange(Body, frozen=True, kw_only=True):
    content: dict[str, Any]
    description: str | None = None


class PolicyInfo(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    type: str
    content: dict[str, Any]
    description: str
    version: str


class PolicyWritten(msgspec.Struct, frozen=True, kw_only=True):
    policy: PolicyInfo
    meta: MutationMeta


class PoliciesPage(msgspec.Struct, frozen=True, kw_only=True):
    policies: list[PolicyInfo]
    next_token: str | None = None


class MappingBody(Body, frozen=True, kw_only=True):
    parameters: Properties = {}


class MappingInfo(msgspec.Struct, frozen=True, kw_only=True):
    policy: str
    catalog: str | None
    """None for the whole realm."""
    path: Path = []
    parameters: Properties = {}


class MappingWritten(msgspec.Struct, frozen=True, kw_only=True):
    mapping: MappingInfo
    meta: MutationMeta


class MappingsPage(msgspec.Struct, frozen=True, kw_only=True):
    mappings: list[MappingInfo]


class ApplicablePolicy(msgspec.Struct, frozen=True, kw_only=True):
    policy: PolicyInfo
    mapping: MappingInfo


class ApplicablePolicies(msgspec.Struct, frozen=True, kw_only=True):
    """The nearest policy of each type."""

    policies: list[ApplicablePolicy]


class DenialInfo(msgspec.Struct, frozen=True, kw_only=True):
    time: str
    principal: str
    right: str
    catalog: str | None
    path: Path
    count: int
    """How many equal ones came together."""
    unwritten: int


class DenialsPage(msgspec.Struct, frozen=True, kw_only=True):
    """Newest first."""

    denials: list[DenialInfo]
    next_token: str | None = None


# ── usage ───────────────────────────────────────────────────────────────────────────────────────────────────


class TypeUsage(msgspec.Struct, frozen=True, kw_only=True):
    table: str
    type: str
    rows: int
    bytes: int
    """Bytes of payloads, estimated from a sample."""


class RealmUsage(msgspec.Struct, frozen=True, kw_only=True):
    realm: str
    measured: str | None
    """When the scan behind these numbers ended; None before the first scan."""
    rows: int
    bytes: int
    types: list[TypeUsage]
