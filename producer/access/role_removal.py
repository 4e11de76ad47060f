"""Deletes a role together with what was granted to it."""

from __future__ import annotations

import msgspec

from headwater.persistence.commit.commit_outcome import CommitOutcome
from headwater.producer.access.grants import Grants
from headwater.producer.access.roles import Roles
from headwater.producer.access.writing import WriteMeta

PAGES_MAX = 100


def delete_role(roles: Roles, grants: Grants, name: str, *, version: str | None = None, meta: WriteMeta) -> CommitOutcome:
    """⚠ First the role, which ends all that was granted to it; the grants themselves are removed after."""
    outcome = roles.delete(name, version=version, meta=meta)
    forget_grants(grants, name, meta)
    return outcome


def forget_grants(grants: Grants, role: str, meta: WriteMeta) -> None:
    unkeyed = msgspec.structs.replace(meta, request_id=None)  # the key of a request names its one entry
    for _ in range(PAGES_MAX):
        if grants.forget_role(role, meta=unkeyed) is None:
            return
