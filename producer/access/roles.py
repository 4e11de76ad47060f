"""Roles and their members: principals in principal roles, and principal roles in the roles of a catalog.

Both kinds look alike: a role under `roles`, a member under `assignments`, each member with the ids of both sides. A principal
or role that is re-created under its name has another id, so nothing that named the old one counts for the new one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from headwater.persistence.commit.commit_outcome import CommitOutcome
from headwater.persistence.records.principal_records import PRINCIPAL_ROLE, PRINCIPALS_POINTER, ROLE_ASSIGNMENT, ROLES_POINTER
from headwater.persistence.records.records import (
    PAGE_RECORDS_MAX,
    DeleteRecord,
    Expect,
    PutRecord,
    Record,
    RecordType,
    head_records,
)
from headwater.persistence.store import RealmKernel
from headwater.producer.access.named_records import NamedRecords, unchanged
from headwater.producer.access.writing import (
    WriteMeta,
    Written,
    check_name,
    check_properties,
    not_found,
    version_of,
)
from headwater.producer.pointer_names import catalog_roles_pointer
from headwater.schemas.change import KeyPath, Value

CATALOG_ROLE = RecordType("CATALOG_ROLE", 1)
CATALOG_ROLE_ASSIGNMENT = RecordType("CATALOG_ROLE_ASSIGNMENT", 2)
ROLES: KeyPath = ("roles",)
ASSIGNMENTS: KeyPath = ("assignments",)


class Role(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    properties: dict[str, str] = {}
    id: str = ""
    version: str = ""


class Assignment(msgspec.Struct, frozen=True, kw_only=True):
    """`member` has the role: a principal has a principal role, a principal role has a catalog role."""

    member: str
    role: str
    member_id: str
    role_id: str


class _Kind(NamedTuple):
    role: RecordType
    assignment: RecordType
    what: str
    member: str
    """How its members are named in records."""
    role_field: str


_OF_REALM = _Kind(PRINCIPAL_ROLE, ROLE_ASSIGNMENT, "principal role", "principal", "role")
_OF_CATALOG = _Kind(CATALOG_ROLE, CATALOG_ROLE_ASSIGNMENT, "catalog role", "principal_role", "catalog_role")


class Roles:
    """Roles of one pointer. Nothing is remembered between calls. Make it with `principal_roles` or `catalog_roles`."""

    def __init__(self, kernel: RealmKernel, pointer: str, kind: _Kind) -> None:
        self._kernel = kernel
        self._kind = kind
        self._records = NamedRecords(kernel, pointer, kind.what, ROLES)

    # ── reading ─────────────────────────────────────────────────────────────────────────────────────────────

    def get(self, name: str) -> Role:
        return role_of(self._records.read(name))

    def list(self, *, after: str = "", limit: int = PAGE_RECORDS_MAX) -> list[Role]:
        """In order of name, after `after`."""
        return [role_of(record) for record in self._records.page(after, limit)]

    def of_member(self, member: str) -> Sequence[Assignment]:
        """The roles that a member has, in order of name; up to a thousand."""
        return [self._assignment(record) for record in self._records.state().page((*ASSIGNMENTS, member))]

    def members(self, role: str) -> Sequence[Assignment]:
        """The principals that have the role. Reads all assignments of the pointer."""
        self._records.read(role)
        return [one for record in self._records.state().all(ASSIGNMENTS) if (one := self._assignment(record)).role == role]

    # ── writing ─────────────────────────────────────────────────────────────────────────────────────────────

    def create(self, name: str, *, properties: dict[str, str] | None = None, meta: WriteMeta) -> Written[Role]:
        value: Value = {"name": check_name(name, self._kind.what), "properties": check_properties(properties)}
        put = PutRecord(type=self._kind.role, key=self._records.key(name), value=value, expect=Expect.ABSENT)
        outcome = self._records.commit([put], meta, f"Create {self._kind.what} {name}")
        return Written(value=self.get(name), outcome=outcome)

    def update(self, name: str, *, properties: dict[str, str], version: str | None = None, meta: WriteMeta) -> Written[Role]:
        record = self._records.read(name)
        value = {**record.value, "properties": check_properties(properties)}
        expect = unchanged(record, version)
        put = PutRecord(type=self._kind.role, key=self._records.key(name), value=value, expect=expect)
        outcome = self._records.commit([put], meta, f"Update {self._kind.what} {name}")
        return Written(value=self.get(name), outcome=outcome)

    def delete(self, name: str, *, version: str | None = None, meta: WriteMeta) -> CommitOutcome:
        """The role alone: what names it counts no more, and is removed by the way."""
        record = self._records.read(name)
        expect = unchanged(record, version)
        named = [one for one in self._records.state().all(ASSIGNMENTS) if self._assignment(one).role == name][:PAGE_RECORDS_MAX]
        rest = [DeleteRecord(key=one.key, expect=Expect.ANYTHING) for one in named]
        operations = [DeleteRecord(key=self._records.key(name), expect=expect), *rest]
        return self._records.commit(operations, meta, f"Delete {self._kind.what} {name}")

    def assign(self, member: str, role: str, *, meta: WriteMeta) -> Written[Assignment]:
        """Nothing to do where the member has it already."""
        kind = self._kind
        value: Value = {
            kind.member: member,
            f"{kind.member}_id": self._member_id(member),
            kind.role_field: role,
            f"{kind.role_field}_id": self.get(role).id,
        }
        put = PutRecord(type=kind.assignment, key=(*ASSIGNMENTS, member, role), value=value)
        outcome = self._records.commit([put], meta, f"Assign {member} to {kind.what} {role}")
        assignment = Assignment(
            member=member, role=role, member_id=value[f"{kind.member}_id"], role_id=value[f"{kind.role_field}_id"]
        )
        return Written(value=assignment, outcome=outcome)

    def revoke(self, member: str, role: str, *, meta: WriteMeta) -> CommitOutcome:
        check_name(member, self._kind.member.replace("_", " "))
        key = (*ASSIGNMENTS, member, check_name(role, self._kind.what))
        if self._records.state().get(key) is None:
            raise not_found("assignment", f"{member} to {role}")
        return self._records.commit([DeleteRecord(key=key)], meta, f"Revoke {self._kind.what} {role} from {member}")

    # ── records ─────────────────────────────────────────────────────────────────────────────────────────────

    def _member_id(self, member: str) -> str:
        if self._kind is _OF_CATALOG:
            return principal_roles(self._kernel).get(member).id
        record = head_records(self._kernel, PRINCIPALS_POINTER).get((check_name(member, "principal"),))
        if record is None:
            raise not_found("principal", member)
        return record.content_id.hex()

    def _assignment(self, record: Record) -> Assignment:
        kind, value = self._kind, record.value
        return Assignment(
            member=value[kind.member],
            role=value[kind.role_field],
            member_id=value[f"{kind.member}_id"],
            role_id=value[f"{kind.role_field}_id"],
        )


def principal_roles(kernel: RealmKernel) -> Roles:
    return Roles(kernel, ROLES_POINTER, _OF_REALM)


def catalog_roles(kernel: RealmKernel, catalog_id: int) -> Roles:
    return Roles(kernel, catalog_roles_pointer(catalog_id), _OF_CATALOG)


def role_of(record: Record) -> Role:
    return msgspec.convert(record.value | {"id": record.content_id.hex(), "version": version_of(record)}, Role)
