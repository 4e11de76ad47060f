"""Management calls to a server: realms, and the records of one realm; each change is applied once."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from typing import TypeVar
from urllib.parse import quote

import msgspec

from headwater.client.server_calls import ServerCalls
from headwater.consumers.clients.feed_http import LEVEL_SEPARATOR, Query
from headwater.manage import NewRealm, NewSecret, Properties
from headwater.producer.commits.commit_meta import CommitMeta
from headwater.producer.pointer_names import ReferenceType
from headwater.schemas.change import KeyPath, Value
from headwater.schemas.http import manage_json as json
from headwater.schemas.http.connector_json import ConnectorsPage
from headwater.schemas.http.manage_json import (
    CatalogInfo,
    EffectiveInfo,
    Gone,
    GrantInfo,
    PolicyInfo,
    PrincipalInfo,
    RealmInfo,
    ReferenceBody,
    ReferenceTarget,
    ReferenceWritten,
    RoleInfo,
)

T = TypeVar("T")
P = TypeVar("P", json.RealmsPage, json.CatalogsPage, json.PrincipalsPage, json.RolesPage, json.PoliciesPage, ConnectorsPage)

PAGE_RECORDS = 1_000
REALMS = "realms"


class Resources:
    """Calls below `/manage/v1`."""

    def __init__(self, calls: ServerCalls) -> None:
        self._calls = calls
        self._base = f"{calls.target.server.rstrip('/')}/manage/v1"

    def _path(self, *parts: str) -> str:
        """In the realm."""
        return _joined(self._calls.target.realm, *parts)

    def _get(self, path: str, kind: type[T], query: Query | None = None) -> T:
        return self._calls.get(f"{self._base}/{path}", query or [], kind)

    def _pages(self, path: str, kind: type[P]) -> Iterator[P]:
        token: str | None = ""
        while token is not None:
            page = self._get(path, kind, [("limit", PAGE_RECORDS), *([("token", token)] if token else [])])
            yield page
            token = page.next_token

    def _change(
        self,
        method: str,
        path: str,
        kind: type[T],
        body: msgspec.Struct | None = None,
        headers: dict[str, str] | None = None,
        query: Query | None = None,
    ) -> T:
        """⚠ Under one key, however often it is sent."""
        sent = {"idempotency-key": uuid.uuid4().hex, "content-type": "application/json", **(headers or {})}
        content = None if body is None else msgspec.json.encode(body)
        return self._calls.call(method, f"{self._base}/{path}", kind, query=query, headers=sent, content=content)


class RemoteRealms(Resources):
    """Realms, with a token of the system."""

    def realms(self) -> Iterator[RealmInfo]:
        for page in self._pages(REALMS, json.RealmsPage):
            yield from page.realms

    def realm(self, name: str) -> RealmInfo:
        return self._get(_joined(REALMS, name), RealmInfo)

    def create(self, name: str, *, initialize: bool, description: str = "") -> NewRealm:
        body = json.RealmBody(name=name, initialize=initialize, description=description)
        made = self._change("POST", REALMS, json.RealmMade, body)
        return NewRealm(made.realm, made.credentials)

    def describe(self, name: str, description: str) -> RealmInfo:
        body = json.RealmChange(description=description)
        return self._change("PATCH", _joined(REALMS, name), json.RealmMoved, body).realm

    def init(self, name: str) -> NewRealm:
        made = self._change("POST", _joined(REALMS, name, "init"), json.RealmMade)
        return NewRealm(made.realm, made.credentials)

    def activate(self, name: str) -> RealmInfo:
        return self._move(name, "activate")

    def deactivate(self, name: str) -> RealmInfo:
        return self._move(name, "deactivate")

    def purge(self, name: str) -> RealmInfo:
        return self._move(name, "purge")

    def delete(self, name: str) -> None:
        self._change("DELETE", _joined(REALMS, name), type(None))

    def _move(self, name: str, move: str) -> RealmInfo:
        return self._change("POST", _joined(REALMS, name, move), json.RealmMoved).realm


class RemoteManage(Resources):
    """The records of one realm."""

    # ── catalogs and references ─────────────────────────────────────────────────────────────────────────────

    def catalogs(self) -> Iterator[CatalogInfo]:
        for page in self._pages(self._path("catalogs"), json.CatalogsPage):
            yield from page.catalogs

    def catalog(self, name: str) -> CatalogInfo:
        return self._get(self._path("catalogs", name), CatalogInfo)

    def create_catalog(self, name: str, *, storage_root: str = "") -> CatalogInfo:
        body = json.CatalogBody(name=name, storage_root=storage_root)
        return self._change("POST", self._path("catalogs"), json.CatalogWritten, body).catalog

    def update_catalog(self, name: str, *, storage_root: str | None, properties: Properties | None) -> CatalogInfo:
        body = json.CatalogChange(storage_root=storage_root, properties=properties)
        return self._change("PATCH", self._path("catalogs", name), json.CatalogWritten, body).catalog

    def drop_catalog(self, name: str, *, require_empty: bool = False, purge: bool = False) -> None:
        query: Query = [("require_empty", _flag(require_empty)), ("purge", _flag(purge))]
        self._change("DELETE", self._path("catalogs", name), Gone, query=query)

    def create_reference(
        self, catalog: str, name: str, type: ReferenceType, source: str | None, meta: CommitMeta
    ) -> ReferenceWritten:
        body = ReferenceBody(name=name, type=type.lower(), source=source, author=meta.author or None, message=meta.message)
        return self._change("POST", self._path("catalogs", catalog, "references"), ReferenceWritten, body)

    def assign_reference(
        self, catalog: str, name: str, type: ReferenceType, target: str, expected_head: str | None, meta: CommitMeta
    ) -> ReferenceWritten:
        path = self._path("catalogs", catalog, "references", type.lower(), name)
        body = ReferenceTarget(target=target, expected_head=expected_head, author=meta.author or None, message=meta.message)
        return self._change("PUT", path, ReferenceWritten, body)

    def delete_reference(
        self, catalog: str, name: str, type: ReferenceType, expected_head: str | None, meta: CommitMeta
    ) -> Gone:
        path = self._path("catalogs", catalog, "references", type.lower(), name)
        headers = {} if expected_head is None else {"if-match": f'"{expected_head}"'}
        query: Query = [(field, text) for field, text in (("author", meta.author), ("message", meta.message)) if text]
        return self._change("DELETE", path, Gone, headers=headers, query=query)

    # ── principals ──────────────────────────────────────────────────────────────────────────────────────────

    def principals(self) -> Iterator[PrincipalInfo]:
        for page in self._pages(self._path("principals"), json.PrincipalsPage):
            yield from page.principals

    def principal(self, name: str) -> PrincipalInfo:
        return self._get(self._path("principals", name), PrincipalInfo)

    def create_principal(self, name: str, *, properties: Properties, with_secret: bool) -> NewSecret:
        body = json.PrincipalBody(name=name, properties=properties, with_secret=with_secret)
        made = self._change("POST", self._path("principals"), json.PrincipalWritten, body)
        return NewSecret(made.principal, made.credentials)

    def update_principal(self, name: str, *, properties: Properties) -> PrincipalInfo:
        body = json.PropertiesBody(properties=properties)
        return self._change("PUT", self._path("principals", name), json.PrincipalWritten, body).principal

    def rotate_secret(self, name: str, *, overlap_seconds: int) -> NewSecret:
        body = json.RotationBody(overlap_seconds=overlap_seconds)
        made = self._change("POST", self._path("principals", name, "rotate"), json.PrincipalWritten, body)
        return NewSecret(made.principal, made.credentials)

    def delete_principal(self, name: str) -> None:
        self._change("DELETE", self._path("principals", name), Gone)

    def rights(self, principal: str) -> EffectiveInfo:
        return self._get(self._path("principals", principal, "rights"), EffectiveInfo)

    # ── roles and grants ────────────────────────────────────────────────────────────────────────────────────

    def roles(self, catalog: str | None) -> Iterator[RoleInfo]:
        for page in self._pages(self._role(catalog), json.RolesPage):
            yield from page.roles

    def role(self, name: str, catalog: str | None) -> RoleInfo:
        return self._get(self._role(catalog, name), RoleInfo)

    def create_role(self, name: str, catalog: str | None, *, properties: Properties) -> RoleInfo:
        body = json.RoleBody(name=name, properties=properties)
        return self._change("POST", self._role(catalog), json.RoleWritten, body).role

    def delete_role(self, name: str, catalog: str | None) -> None:
        self._change("DELETE", self._role(catalog, name), Gone)

    def members(self, role: str, catalog: str | None) -> Sequence[str]:
        page = self._get(self._role(catalog, role, "members"), json.AssignmentsPage)
        return [one.member for one in page.assignments]

    def assign(self, role: str, member: str, catalog: str | None) -> bool:
        return self._change("PUT", self._role(catalog, role, "members", member), json.AssignmentWritten).meta.changed

    def revoke(self, role: str, member: str, catalog: str | None) -> None:
        self._change("DELETE", self._role(catalog, role, "members", member), Gone)

    def grants(self, role: str, catalog: str | None) -> Sequence[GrantInfo]:
        return self._get(self._role(catalog, role, "grants"), json.GrantsPage).grants

    def grant(self, role: str, right: str, path: KeyPath, catalog: str | None) -> bool:
        route = self._role(catalog, role, "grants", right)
        return self._change("PUT", route, json.GrantWritten, query=_at(None, path)).meta.changed

    def revoke_grant(self, role: str, right: str, path: KeyPath, catalog: str | None) -> None:
        self._change("DELETE", self._role(catalog, role, "grants", right), Gone, query=_at(None, path))

    # ── policies ────────────────────────────────────────────────────────────────────────────────────────────

    def policies(self) -> Iterator[PolicyInfo]:
        for page in self._pages(self._path("policies"), json.PoliciesPage):
            yield from page.policies

    def create_policy(self, name: str, *, type: str, content: Value, description: str) -> PolicyInfo:
        body = json.PolicyBody(name=name, type=type, content=content, description=description)
        return self._change("POST", self._path("policies"), json.PolicyWritten, body).policy

    def update_policy(self, name: str, *, content: Value, description: str | None) -> PolicyInfo:
        body = json.PolicyChange(content=content, description=description)
        return self._change("PUT", self._path("policies", name), json.PolicyWritten, body).policy

    def delete_policy(self, name: str, *, detach_all: bool) -> None:
        query: Query = [("detach_all", _flag(detach_all))]
        self._change("DELETE", self._path("policies", name), Gone, query=query)

    def attach(self, policy: str, catalog: str | None, path: KeyPath) -> None:
        route = self._path("policies", policy, "mappings")
        self._change("PUT", route, json.MappingWritten, json.MappingBody(), query=_at(catalog, path))

    def detach(self, policy: str, catalog: str | None, path: KeyPath) -> None:
        self._change("DELETE", self._path("policies", policy, "mappings"), Gone, query=_at(catalog, path))

    def applicable(self, catalog: str | None, path: KeyPath) -> Sequence[PolicyInfo]:
        found = self._get(self._path("applicable-policies"), json.ApplicablePolicies, _at(catalog, path))
        return [one.policy for one in found.policies]

    # ── steps ───────────────────────────────────────────────────────────────────────────────────────────────

    def _role(self, catalog: str | None, *parts: str) -> str:
        return self._path(*(("principal-roles",) if catalog is None else ("catalogs", catalog, "roles")), *parts)


def _joined(*parts: str) -> str:
    return "/".join(quote(part, safe="") for part in parts)


def _flag(value: bool) -> str:
    return "true" if value else "false"


def _at(catalog: str | None, path: KeyPath) -> Query:
    query: Query = [] if catalog is None else [("catalog", catalog)]
    return [*query, ("path", LEVEL_SEPARATOR.join(path))] if path else query
