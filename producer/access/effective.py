"""Computes what a principal may do from the pointers that hold roles and grants.

⚠ A role counts only through ids: the assignment must name the principal and the role that are there now, the grant the role
that is there now. Records left over from a deleted principal or role grant nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from headwater.persistence.records.principal_records import GRANTS_POINTER, PRINCIPALS_POINTER, ROLES_POINTER
from headwater.persistence.records.records import Record, RecordState, head_records
from headwater.persistence.store import RealmKernel
from headwater.producer.access.rights import Right, implied_by
from headwater.producer.access.roles import ASSIGNMENTS, ROLES
from headwater.producer.pointer_names import catalog_grants_pointer, catalog_roles_pointer
from headwater.schemas.change import KeyPath

RoleIds = Mapping[str, str]
"""Ids of roles by name."""


class Held(msgspec.Struct, frozen=True):
    """Rights over one realm or catalog: for each right the paths at which it is held, implied ones included."""

    paths: dict[Right, frozenset[KeyPath]] = {}

    def allows(self, right: Right, key: KeyPath = ()) -> bool:
        """At the key: held there or anywhere above it."""
        paths = self.paths.get(right)
        return paths is not None and is_held(paths, key)

    def allows_somewhere(self, right: Right) -> bool:
        return right in self.paths


def is_held(paths: frozenset[KeyPath], key: KeyPath) -> bool:
    """Whether the key is at or below one of the paths."""
    return () in paths or any(key[:levels] in paths for levels in range(1, len(key) + 1))


NOTHING = Held()


class EffectiveRights(msgspec.Struct, frozen=True):
    roles: tuple[str, ...]
    realm: Held
    catalogs: dict[int, Held]
    """By catalog id."""


def roles_of_principal(roles: RecordState, principal: str, principal_id: str, also: Iterable[str] = ()) -> dict[str, str]:
    """The principal roles that count, with their ids; `also` are names from a token."""
    assigned = {
        record.value["role"]: record.value["role_id"]
        for record in roles.all((*ASSIGNMENTS, principal))
        if principal_id and record.value["principal_id"] == principal_id
    }
    found: dict[str, str] = {}
    for name in {*assigned, *also}:
        role = roles.get((*ROLES, name))
        if role is not None and (name not in assigned or assigned[name] == _id(role) or name in also):
            found[name] = _id(role)
    return found


def held_in_realm(grants: RecordState, roles: RoleIds) -> Held:
    return _held(record for name in roles for record in grants.all((name,)) if record.value["role_id"] == roles[name])


def held_in_catalog(catalog_roles: RecordState, catalog_grants: RecordState, roles: RoleIds) -> Held:
    """By way of the catalog's roles that the principal roles have."""
    counted: dict[str, str] = {}
    for name, role_id in roles.items():
        for record in catalog_roles.all((*ASSIGNMENTS, name)):
            assigned = record.value
            role = catalog_roles.get((*ROLES, assigned["catalog_role"]))
            is_current = role is not None and assigned["catalog_role_id"] == _id(role)
            if is_current and assigned["principal_role_id"] == role_id:
                counted[assigned["catalog_role"]] = assigned["catalog_role_id"]
    return held_in_realm(catalog_grants, counted)


def effective_rights(
    kernel: RealmKernel, principal: str, catalog_ids: Iterable[int] = (), also_roles: Iterable[str] = ()
) -> EffectiveRights:
    """What a principal may do now, by the newest acknowledged states; over the realm, and over the catalogs that are named."""
    record = head_records(kernel, PRINCIPALS_POINTER).get((principal,))
    principal_id = "" if record is None else _id(record)
    roles = roles_of_principal(head_records(kernel, ROLES_POINTER), principal, principal_id, also_roles)
    catalogs = {
        catalog_id: held_in_catalog(
            head_records(kernel, catalog_roles_pointer(catalog_id)),
            head_records(kernel, catalog_grants_pointer(catalog_id)),
            roles,
        )
        for catalog_id in catalog_ids
    }
    return EffectiveRights(tuple(sorted(roles)), held_in_realm(head_records(kernel, GRANTS_POINTER), roles), catalogs)


def _held(grants: Iterable[Record]) -> Held:
    paths: dict[Right, set[KeyPath]] = {}
    for record in grants:
        granted = record.value["right"]
        if granted not in _KNOWN:  # of a later version: it means nothing here
            continue
        for right in implied_by(Right(granted)):
            paths.setdefault(right, set()).add(tuple(record.value["path"]))
    return Held({right: frozenset(found) for right, found in paths.items()})


_KNOWN = frozenset(map(str, Right))


def _id(record: Record) -> str:
    return record.content_id.hex()
