"""Manages the realms and records of an open store."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from headwater.manage import NewRealm, NewSecret, Properties
from headwater.persistence.realms.realms import InitializedRealm, Realms
from headwater.persistence.rows import SYSTEM_REALM
from headwater.persistence.store import RealmKernel, Store
from headwater.producer.access.effective import effective_rights
from headwater.producer.access.grants import Grants, catalog_grants, realm_grants
from headwater.producer.access.policies import Policies, Target
from headwater.producer.access.principals import Principals, WithSecret
from headwater.producer.access.rights import right_of
from headwater.producer.access.role_removal import delete_role
from headwater.producer.access.roles import Roles, catalog_roles, principal_roles
from headwater.producer.access.writing import WriteMeta
from headwater.producer.catalogs import catalog_updates
from headwater.producer.catalogs.catalogs import Catalogs
from headwater.producer.record_views import (
    catalog_info,
    effective_info,
    grant_info,
    policy_info,
    principal_info,
    realm_info,
    role_info,
    secret_shown,
)
from headwater.schemas.change import KeyPath, Value
from headwater.schemas.errors import InvalidInput
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

T = TypeVar("T")


class LocalRealms:
    def __init__(self, store: Store, author: str) -> None:
        self._realms = Realms(store, author=author)

    def realms(self) -> Iterator[RealmInfo]:
        return map(realm_info, self._realms.all())

    def realm(self, name: str) -> RealmInfo:
        return realm_info(self._realms.get(name))

    def create(self, name: str, *, initialize: bool, description: str = "") -> NewRealm:
        made = self._realms.create(name, description=description)
        return self.init(name) if initialize else NewRealm(realm_info(made), None)

    def describe(self, name: str, description: str) -> RealmInfo:
        return realm_info(self._realms.describe(name, description))

    def init(self, name: str) -> NewRealm:
        done = self._realms.init(name)
        return NewRealm(realm_info(done.realm), _first_secret(done))

    def activate(self, name: str) -> RealmInfo:
        return realm_info(self._realms.activate(name))

    def deactivate(self, name: str) -> RealmInfo:
        return realm_info(self._realms.deactivate(name))

    def purge(self, name: str) -> RealmInfo:
        return realm_info(self._realms.purge(name))

    def delete(self, name: str) -> None:
        self._realms.delete(name)


class LocalManage:
    """One realm, and the author of everything that is written through this object."""

    def __init__(self, kernel: RealmKernel, author: str) -> None:
        self.kernel = kernel
        self._meta = WriteMeta(author)
        self._catalogs = Catalogs(kernel)
        self._principals = Principals(kernel)
        self._policies = Policies(kernel)

    # ── catalogs ────────────────────────────────────────────────────────────────────────────────────────────

    def catalogs(self) -> Iterator[CatalogInfo]:
        for one in self._catalogs.read_all():
            yield catalog_info(one.catalog, one.version)

    def catalog(self, name: str) -> CatalogInfo:
        read = self._catalogs.read(name)
        return catalog_info(read.catalog, read.version)

    def create_catalog(self, name: str, *, storage_root: str = "") -> CatalogInfo:
        written = catalog_updates.create_catalog(self.kernel, name, storage_root=storage_root, meta=self._meta)
        return catalog_info(written.value.catalog, written.value.version)

    def update_catalog(self, name: str, *, storage_root: str | None, properties: Properties | None) -> CatalogInfo:
        written = catalog_updates.update_catalog(
            self.kernel, name, storage_root=storage_root, properties=properties, meta=self._meta
        )
        return catalog_info(written.value.catalog, written.value.version)

    def drop_catalog(self, name: str, *, require_empty: bool = False, purge: bool = False) -> None:
        catalog_updates.drop_catalog(self.kernel, name, require_empty=require_empty, purge=purge, meta=self._meta)

    # ── principals ──────────────────────────────────────────────────────────────────────────────────────────

    def principals(self) -> Iterator[PrincipalInfo]:
        return map(principal_info, _pages(lambda last: self._principals.list(after=last.name if last else "")))

    def principal(self, name: str) -> PrincipalInfo:
        return principal_info(self._principals.get(name))

    def create_principal(self, name: str, *, properties: Properties, with_secret: bool) -> NewSecret:
        return _new_secret(self._principals.create(name, properties=properties, with_secret=with_secret, meta=self._meta))

    def update_principal(self, name: str, *, properties: Properties) -> PrincipalInfo:
        return principal_info(self._principals.update(name, properties=properties, meta=self._meta).value)

    def rotate_secret(self, name: str, *, overlap_seconds: int) -> NewSecret:
        return _new_secret(self._principals.rotate_secret(name, overlap_seconds=overlap_seconds, meta=self._meta))

    def delete_principal(self, name: str) -> None:
        self._principals.delete(name, meta=self._meta)

    def rights(self, principal: str) -> EffectiveInfo:
        self._principals.get(principal)
        is_system = self.kernel.realm_name == SYSTEM_REALM
        catalogs = {} if is_system else {one.id: one.name for one in self._catalogs.list()}
        return effective_info(principal, effective_rights(self.kernel, principal, catalogs), catalogs)

    # ── roles and grants ────────────────────────────────────────────────────────────────────────────────────

    def roles(self, catalog: str | None) -> Iterator[RoleInfo]:
        roles = self._roles(catalog)
        return map(role_info, _pages(lambda last: roles.list(after=last.name if last else "")))

    def role(self, name: str, catalog: str | None) -> RoleInfo:
        return role_info(self._roles(catalog).get(name))

    def create_role(self, name: str, catalog: str | None, *, properties: Properties) -> RoleInfo:
        return role_info(self._roles(catalog).create(name, properties=properties, meta=self._meta).value)

    def delete_role(self, name: str, catalog: str | None) -> None:
        delete_role(self._roles(catalog), self._grants(catalog), name, meta=self._meta)

    def members(self, role: str, catalog: str | None) -> Sequence[str]:
        return [one.member for one in self._roles(catalog).members(role)]

    def assign(self, role: str, member: str, catalog: str | None) -> bool:
        return self._roles(catalog).assign(member, role, meta=self._meta).outcome.changed

    def revoke(self, role: str, member: str, catalog: str | None) -> None:
        self._roles(catalog).revoke(member, role, meta=self._meta)

    def grants(self, role: str, catalog: str | None) -> Sequence[GrantInfo]:
        return [grant_info(one) for one in self._grants(catalog).of_role(role)]

    def grant(self, role: str, right: str, path: KeyPath, catalog: str | None) -> bool:
        return self._grants(catalog).grant(role, right_of(right), path, meta=self._meta).outcome.changed

    def revoke_grant(self, role: str, right: str, path: KeyPath, catalog: str | None) -> None:
        self._grants(catalog).revoke(role, right_of(right), path, meta=self._meta)

    # ── policies ────────────────────────────────────────────────────────────────────────────────────────────

    def policies(self) -> Iterator[PolicyInfo]:
        return map(policy_info, _pages(lambda last: self._policies.list(after=last.name if last else "")))

    def create_policy(self, name: str, *, type: str, content: Value, description: str) -> PolicyInfo:
        made = self._policies.create(name, type=type, content=content, description=description, meta=self._meta)
        return policy_info(made.value)

    def update_policy(self, name: str, *, content: Value, description: str | None) -> PolicyInfo:
        return policy_info(self._policies.update(name, content=content, description=description, meta=self._meta).value)

    def delete_policy(self, name: str, *, detach_all: bool) -> None:
        self._policies.delete(name, detach_all=detach_all, meta=self._meta)

    def attach(self, policy: str, catalog: str | None, path: KeyPath) -> None:
        self._policies.attach(policy, self._target(catalog, path), meta=self._meta)

    def detach(self, policy: str, catalog: str | None, path: KeyPath) -> None:
        self._policies.detach(policy, self._target(catalog, path), meta=self._meta)

    def applicable(self, catalog: str | None, path: KeyPath) -> Sequence[PolicyInfo]:
        return [policy_info(policy) for policy, _ in self._policies.applicable(self._target(catalog, path))]

    # ── steps ───────────────────────────────────────────────────────────────────────────────────────────────

    def _roles(self, catalog: str | None) -> Roles:
        return principal_roles(self.kernel) if catalog is None else catalog_roles(self.kernel, self._id(catalog))

    def _grants(self, catalog: str | None) -> Grants:
        return realm_grants(self.kernel) if catalog is None else catalog_grants(self.kernel, self._id(catalog))

    def _target(self, catalog: str | None, path: KeyPath) -> Target:
        if catalog is None and path:
            raise InvalidInput("the realm has no paths.", field="path", remedy="Name a catalog.")
        return Target(None if catalog is None else self._id(catalog), path)

    def _id(self, catalog: str) -> int:
        return self._catalogs.get(catalog).id


def _pages(page_after: Callable[[T | None], Sequence[T]]) -> Iterator[T]:
    """All pages as one sequence; each is requested after the last item of the previous one."""
    page = page_after(None)
    while page:
        yield from page
        page = page_after(page[-1])


def _new_secret(made: WithSecret) -> NewSecret:
    return NewSecret(principal_info(made.principal), secret_shown(made))


def _first_secret(done: InitializedRealm) -> SecretShown:
    return SecretShown(principal=done.principal, client_id=done.client_id, client_secret=done.client_secret)
