"""Records as the management API and the commands show them."""

from __future__ import annotations

from collections.abc import Mapping

from headwater.persistence.realms.realm_records import Realm
from headwater.producer.access.effective import EffectiveRights
from headwater.producer.access.grants import Grant
from headwater.producer.access.policies import Policy, PolicyMapping
from headwater.producer.access.principals import Principal, WithSecret
from headwater.producer.access.roles import Role
from headwater.producer.catalogs.catalog_records import Catalog
from headwater.schemas.entry_ids import time_text
from headwater.schemas.http.manage_json import (
    CatalogInfo,
    EffectiveInfo,
    GrantInfo,
    MappingInfo,
    PolicyInfo,
    PrincipalInfo,
    RealmInfo,
    RoleInfo,
    SecretDates,
    SecretShown,
)


def realm_info(realm: Realm) -> RealmInfo:
    return RealmInfo(
        name=realm.name,
        instance=realm.instance,
        status=str(realm.status),
        created=time_text(realm.created_at),
        updated=time_text(realm.changed_at),
        version=f"{realm.changed_at:x}",
        description=realm.description,
    )


def catalog_info(catalog: Catalog, version: str) -> CatalogInfo:
    return CatalogInfo(
        name=catalog.name,
        id=catalog.id,
        storage_root=catalog.storage_root,
        default_branch=catalog.default_branch,
        properties=catalog.properties,
        created=time_text(catalog.created_at),
        created_by=catalog.created_by,
        version=version,
    )


def principal_info(principal: Principal) -> PrincipalInfo:
    return PrincipalInfo(
        name=principal.name,
        client_id=principal.client_id,
        properties=principal.properties,
        secrets=[
            SecretDates(created=time_text(one.created_at), expires=time_text(one.expires_at) if one.expires_at else None)
            for one in principal.secrets
        ],
        created=time_text(principal.created_at),
        version=principal.version,
    )


def secret_shown(made: WithSecret) -> SecretShown | None:
    if made.credentials is None:
        return None
    return SecretShown(
        principal=made.principal.name,
        client_id=made.credentials.client_id,
        client_secret=made.credentials.client_secret,
    )


def effective_info(principal: str, rights: EffectiveRights, catalogs: Mapping[int, str]) -> EffectiveInfo:
    """`catalogs` names the catalogs by their ids."""
    return EffectiveInfo(
        principal=principal,
        roles=list(rights.roles),
        realm=sorted(rights.realm.paths),
        catalogs={
            catalogs[id]: {str(right): sorted(list(path) for path in paths) for right, paths in sorted(held.paths.items())}
            for id, held in rights.catalogs.items()
            if held.paths
        },
    )


def role_info(role: Role) -> RoleInfo:
    return RoleInfo(name=role.name, properties=role.properties, version=role.version)


def grant_info(grant: Grant) -> GrantInfo:
    return GrantInfo(role=grant.role, right=str(grant.right), path=list(grant.path))


def policy_info(policy: Policy) -> PolicyInfo:
    return PolicyInfo(
        name=policy.name,
        type=policy.type,
        content=policy.content,
        description=policy.description,
        version=policy.version,
    )


def mapping_info(mapping: PolicyMapping, catalogs: Mapping[int, str]) -> MappingInfo:
    """A catalog that is gone is shown by its number."""
    id = mapping.target.catalog_id
    catalog = None if id is None else catalogs.get(id, f"#{id}")
    return MappingInfo(policy=mapping.policy, catalog=catalog, path=list(mapping.target.path), parameters=mapping.parameters)
