"""Rights that are granted to roles, over a realm or a catalog.

Over the realm a right is granted to a principal role, and holds in every catalog of it. Over a catalog, or what is at and below
a key of it, it is granted to a role of that catalog.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from headwater.persistence.commit.commit_outcome import CommitOutcome
from headwater.persistence.records.principal_records import GRANT, GRANTS_POINTER
from headwater.persistence.records.records import PAGE_RECORDS_MAX, DeleteRecord, PutRecord, Record, RecordState, head_records
from headwater.persistence.rows import SYSTEM_REALM
from headwater.persistence.store import RealmKernel
from headwater.producer.access.rights import REALM_ONLY, Right
from headwater.producer.access.roles import Roles, catalog_roles, principal_roles
from headwater.producer.access.writing import WriteMeta, Written, check_name, commit_records, not_found, version_of
from headwater.producer.pointer_names import catalog_grants_pointer
from headwater.schemas.change import KeyPath, Value
from headwater.schemas.errors import InvalidInput


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    role: str
    right: Right
    path: KeyPath = ()
    """Empty for the realm, or the whole catalog."""
    role_id: str = ""
    version: str = ""


class Grants:
    """Grants of one pointer. Nothing is remembered between calls. Make it with `realm_grants` or `catalog_grants`."""

    def __init__(self, kernel: RealmKernel, pointer: str, roles: Roles, *, of_realm: bool) -> None:
        self._kernel = kernel
        self._pointer = pointer
        self._roles = roles
        self._of_realm = of_realm

    def grant(self, role: str, right: Right, path: KeyPath = (), *, meta: WriteMeta) -> Written[Grant]:
        """Nothing to do where it is granted already."""
        self._check(right, path)
        if right is Right.SYSTEM_MANAGE and self._kernel.realm != SYSTEM_REALM:
            raise InvalidInput(
                f"{right} is over the system, not a realm.", field="right", remedy=f"Grant it in the realm {SYSTEM_REALM}."
            )
        role_id = self._roles.get(role).id
        value: Value = {"role": role, "role_id": role_id, "right": str(right), "path": list(path)}
        put = PutRecord(type=GRANT, key=_key(role, right, path), value=value)
        outcome = self._commit([put], meta, f"Grant {right} to {role}")
        return Written(value=Grant(role=role, right=right, path=path, role_id=role_id), outcome=outcome)

    def revoke(self, role: str, right: Right, path: KeyPath = (), *, meta: WriteMeta) -> CommitOutcome:
        """Revokes exactly this grant; rights that another grant implies stay."""
        self._check(right, path)
        key = _key(check_name(role, "role"), right, path)
        if self._state().get(key) is None:
            raise not_found("grant", f"{right} to {role}")
        return self._commit([DeleteRecord(key=key)], meta, f"Revoke {right} from {role}")

    def of_role(self, role: str) -> Iterator[Grant]:
        """In order of right and path."""
        return (grant_of(record) for record in self._state().all((check_name(role, "role"),)))

    def list(self, *, after: Grant | None = None, limit: int = PAGE_RECORDS_MAX) -> list[Grant]:
        """In order of role, right and path, after `after`."""
        key = None if after is None else _key(after.role, after.right, after.path)
        return [grant_of(record) for record in self._state().page(after=key, limit=limit)]

    def forget_role(self, role: str, *, meta: WriteMeta) -> CommitOutcome | None:
        """Remove what was granted to a role that is gone: it counts no more already. Call again while it says `changed`."""
        keys = [record.key for record in self._state().page((check_name(role, "role"),))]
        if not keys:
            return None
        operations = [DeleteRecord(key=key) for key in keys]
        return self._commit(operations, meta, f"Forget what was granted to {role}")

    def _check(self, right: Right, path: KeyPath) -> None:
        if self._of_realm and path:
            raise InvalidInput("the realm has no keys.", field="path", remedy="Grant it over a catalog.")
        if not self._of_realm and right in REALM_ONLY:
            raise InvalidInput(f"{right} is over a realm, not a catalog.", field="right", remedy="Grant it over the realm.")
        if not all(path):
            raise InvalidInput("a level is empty.", field="path", remedy="Send names alone.")

    def _state(self) -> RecordState:
        return head_records(self._kernel, self._pointer)

    def _commit(self, operations: Sequence[PutRecord | DeleteRecord], meta: WriteMeta, message: str) -> CommitOutcome:
        return commit_records(self._kernel, self._pointer, operations, meta, message)


def realm_grants(kernel: RealmKernel) -> Grants:
    return Grants(kernel, GRANTS_POINTER, principal_roles(kernel), of_realm=True)


def catalog_grants(kernel: RealmKernel, catalog_id: int) -> Grants:
    return Grants(kernel, catalog_grants_pointer(catalog_id), catalog_roles(kernel, catalog_id), of_realm=False)


def grant_of(record: Record) -> Grant:
    return msgspec.convert(record.value | {"version": version_of(record)}, Grant)


def _key(role: str, right: Right, path: KeyPath) -> KeyPath:
    return (role, str(right), *path)
