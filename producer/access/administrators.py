"""Makes a system administrator: a principal of the system realm that manages realms."""

from __future__ import annotations

from headwater.persistence.store import RealmKernel
from headwater.producer.access.grants import realm_grants
from headwater.producer.access.principals import Principals, WithSecret
from headwater.producer.access.rights import Right
from headwater.producer.access.roles import principal_roles
from headwater.producer.access.writing import WriteMeta
from headwater.schemas.errors import RecordExists

SYSTEM_ROLE = "system-admin"


def make_administrator(system: RealmKernel, name: str, meta: WriteMeta) -> WithSecret:
    """The role is created first: a crash in between would otherwise leave a principal without any right."""
    roles = principal_roles(system)
    try:
        roles.create(SYSTEM_ROLE, meta=meta)
    except RecordExists:
        roles.get(SYSTEM_ROLE)
    for right in (Right.SYSTEM_MANAGE, Right.ACCESS_MANAGE):
        realm_grants(system).grant(SYSTEM_ROLE, right, meta=meta)
    made = Principals(system).create(name, meta=meta)
    roles.assign(name, SYSTEM_ROLE, meta=meta)
    return made
