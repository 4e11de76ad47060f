"""What a store and a server both offer to manage: realms, and the catalogs, principals, roles and policies of one realm."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from headwater.schemas.change import KeyPath, Value
from headwater.schemas.http.connector_json import ConnectorBody, ConnectorChange, ConnectorInfo, ConnectorValid, JobInfo
from headwater.schemas.http.manage_json import (
    CatalogInfo,
    EffectiveInfo,
    GrantInfo,
    PolicyInfo,
    PrincipalInfo,
    RealmInfo,
    RoleInfo,
    SecretShown,
)

Properties = dict[str, str]


class NewRealm(NamedTuple):
    realm: RealmInfo
    credentials: SecretShown | None
    """Secret of the first principal, shown once; None for a realm that is not filled yet."""


class NewSecret(NamedTuple):
    principal: PrincipalInfo
    credentials: SecretShown | None


class ManagedRealms(Protocol):
    def realms(self) -> Iterator[RealmInfo]: ...

    def realm(self, name: str) -> RealmInfo: ...

    def create(self, name: str, *, initialize: bool, description: str = "") -> NewRealm: ...

    def describe(self, name: str, description: str) -> RealmInfo: ...

    def init(self, name: str) -> NewRealm: ...

    def activate(self, name: str) -> RealmInfo: ...

    def deactivate(self, name: str) -> RealmInfo: ...

    def purge(self, name: str) -> RealmInfo: ...

    def delete(self, name: str) -> None: ...


class ManagedRealm(Protocol):
    """If a `catalog` may be None, None means the realm itself."""

    # ── catalogs ────────────────────────────────────────────────────────────────────────────────────────────

    def catalogs(self) -> Iterator[CatalogInfo]: ...

    def catalog(self, name: str) -> CatalogInfo: ...

    def create_catalog(self, name: str, *, storage_root: str = "") -> CatalogInfo: ...

    def update_catalog(self, name: str, *, storage_root: str | None, properties: Properties | None) -> CatalogInfo: ...

    def drop_catalog(self, name: str, *, require_empty: bool = False, purge: bool = False) -> None: ...

    # ── principals ──────────────────────────────────────────────────────────────────────────────────────────

    def principals(self) -> Iterator[PrincipalInfo]: ...

    def principal(self, name: str) -> PrincipalInfo: ...

    def create_principal(self, name: str, *, properties: Properties, with_secret: bool) -> NewSecret: ...

    def update_principal(self, name: str, *, properties: Properties) -> PrincipalInfo: ...

    def rotate_secret(self, name: str, *, overlap_seconds: int) -> NewSecret: ...

    def delete_principal(self, name: str) -> None: ...

    def rights(self, principal: str) -> EffectiveInfo: ...

    # ── roles and grants ────────────────────────────────────────────────────────────────────────────────────

    def roles(self, catalog: str | None) -> Iterator[RoleInfo]: ...

    def role(self, name: str, catalog: str | None) -> RoleInfo: ...

    def create_role(self, name: str, catalog: str | None, *, properties: Properties) -> RoleInfo: ...

    def delete_role(self, name: str, catalog: str | None) -> None: ...

    def members(self, role: str, catalog: str | None) -> Sequence[str]: ...

    def assign(self, role: str, member: str, catalog: str | None) -> bool:
        """Whether that changed anything."""

    def revoke(self, role: str, member: str, catalog: str | None) -> None: ...

    def grants(self, role: str, catalog: str | None) -> Sequence[GrantInfo]: ...

    def grant(self, role: str, right: str, path: KeyPath, catalog: str | None) -> bool:
        """Whether that changed anything."""

    def revoke_grant(self, role: str, right: str, path: KeyPath, catalog: str | None) -> None: ...

    # ── policies ────────────────────────────────────────────────────────────────────────────────────────────

    def policies(self) -> Iterator[PolicyInfo]: ...

    def create_policy(self, name: str, *, type: str, content: Value, description: str) -> PolicyInfo: ...

    def update_policy(self, name: str, *, content: Value, description: str | None) -> PolicyInfo: ...

    def delete_policy(self, name: str, *, detach_all: bool) -> None: ...

    def attach(self, policy: str, catalog: str | None, path: KeyPath) -> None: ...

    def detach(self, policy: str, catalog: str | None, path: KeyPath) -> None: ...

    def applicable(self, catalog: str | None, path: KeyPath) -> Sequence[PolicyInfo]:
        """The nearest policy of each type."""


class ManagedConnectors(Protocol):
    """The connectors of one realm."""

    def connectors(self) -> Sequence[ConnectorInfo]: ...

    def connector(self, name: str) -> ConnectorInfo: ...

    def add(self, body: ConnectorBody) -> ConnectorInfo: ...

    def change(self, name: str, body: ConnectorChange) -> ConnectorInfo: ...

    def remove(self, name: str) -> None:
        """What it committed stays."""

    def validate(self, name: str) -> ConnectorValid:
        """Reach the source and read one page of it."""

    def reconcile(self, name: str, *, full_rescan: bool, scope: Sequence[KeyPath] = ()) -> JobInfo:
        """Queue a job; with a scope only for these namespaces and tables, and all below them."""

    def jobs(self, name: str) -> Sequence[JobInfo]:
        """Newest first."""

    def cancel(self, name: str, job: str) -> JobInfo: ...
