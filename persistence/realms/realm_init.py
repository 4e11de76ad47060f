"""Fills a realm instance that is INITIALIZING with its root entity, first principal and pointers, and reads them back."""

from __future__ import annotations

import uuid
from typing import ClassVar

import msgspec

from headwater.persistence.commit.draft import Draft, Plan
from headwater.persistence.records.principal_records import (
    ADMIN_RIGHT,
    ADMIN_ROLE,
    GRANT,
    GRANTS_POINTER,
    PRINCIPAL,
    PRINCIPAL_ROLE,
    PRINCIPALS_POINTER,
    ROLE_ASSIGNMENT,
    ROLES_POINTER,
    ROOT_PRINCIPAL,
    NewPrincipal,
    keep_secret,
)
from headwater.persistence.records.records import (
    Expect,
    Expectation,
    PutRecord,
    RecordsRequest,
    RecordType,
    Unchanged,
    head_records,
)
from headwater.persistence.store import RealmKernel
from headwater.schemas.change import KeyPath, Kind, Value
from headwater.schemas.errors import Corruption, RealmStateConflict, RecordChanged, RecordExists, RecordNotFound

ROOT_POINTER = "root"
ROOT = RecordType("ROOT", 1)
ROOT_KEY = ("root",)
PRINCIPAL_KEY = (ROOT_PRINCIPAL,)
ADMIN_ROLE_KEY = ("roles", ADMIN_ROLE)
ADMIN_ASSIGNMENT_KEY = ("assignments", ROOT_PRINCIPAL, ADMIN_ROLE)
ADMIN_GRANT_KEY = (ADMIN_ROLE, ADMIN_RIGHT)

REALM_POINTERS = (
    ROOT_POINTER,
    "catalogs",
    PRINCIPALS_POINTER,
    ROLES_POINTER,
    GRANTS_POINTER,
    "immediate-tasks",
    "policy-mappings",
)
"""What every user realm has; a catalog adds its own."""


class CreatePointer(msgspec.Struct, frozen=True, kw_only=True):
    """Begin a pointer's log with an empty state; nothing to do where it has begun."""

    kind: ClassVar[Kind] = Kind.CREATE
    keys_to_read: ClassVar[tuple[bytes, ...]] = ()

    author: str
    request_id: str = msgspec.field(default_factory=lambda: uuid.uuid4().hex)
    request_id_is_callers: bool = False
    fingerprint: bytes = b""

    def plan(self, draft: Draft) -> Plan | None:
        if draft.head.entry is not None:
            return None
        return Plan(kind=Kind.CREATE, author=self.author, message=f"Create {draft.pointer}")


def expected_principal(kernel: RealmKernel) -> Expectation:
    """What initializing may replace: the principal of an earlier try, whose secret was never shown.

    ⚠ Read before the realm's record is taken over: then of several that initialize at once only the one that completes has
    its principal stored, for everyone else's expectation is older than what that one wrote.
    """
    earlier = head_records(kernel, PRINCIPALS_POINTER).get(PRINCIPAL_KEY)
    return Expect.ABSENT if earlier is None else Unchanged(earlier.object_id)


def write_first_records(kernel: RealmKernel, root: Value, principal: NewPrincipal, expected: Expectation, author: str) -> None:
    """May be repeated: what is there already stays, but for the principal that an earlier try left."""
    for pointer in REALM_POINTERS:
        kernel.committer.commit(pointer, CreatePointer(author=author))
    put_root = PutRecord(type=ROOT, key=ROOT_KEY, value=root)
    kernel.committer.commit(
        ROOT_POINTER, RecordsRequest(operations=[put_root], author=author, message="Create the root entity")
    )
    keep_secret(kernel, principal.secret)
    put_principal = PutRecord(type=PRINCIPAL, key=PRINCIPAL_KEY, value=principal.value, expect=expected)
    request = RecordsRequest(operations=[put_principal], author=author, message="Create the first principal")
    try:
        kernel.committer.commit(PRINCIPALS_POINTER, request)
    except (RecordExists, RecordChanged, RecordNotFound) as error:
        raise RealmStateConflict(
            "another process is initializing the realm too.", field="realm", remedy="Look at its status, then repeat."
        ) from error
    _write_first_rights(kernel, author)


def _write_first_rights(kernel: RealmKernel, author: str) -> None:
    """The first principal may do everything in the realm. Each record names its subjects by content id, as all of them do."""
    role: Value = {"name": ADMIN_ROLE, "properties": {}}
    put_role = PutRecord(type=PRINCIPAL_ROLE, key=ADMIN_ROLE_KEY, value=role, expect=Expect.ANYTHING)
    _put(kernel, ROLES_POINTER, put_role, author, "Create the first role")
    principal_id = _content_id(kernel, PRINCIPALS_POINTER, PRINCIPAL_KEY)
    role_id = _content_id(kernel, ROLES_POINTER, ADMIN_ROLE_KEY)
    assignment: Value = {
        "principal": ROOT_PRINCIPAL,
        "principal_id": principal_id,
        "role": ADMIN_ROLE,
        "role_id": role_id,
    }
    put_assignment = PutRecord(type=ROLE_ASSIGNMENT, key=ADMIN_ASSIGNMENT_KEY, value=assignment)
    _put(kernel, ROLES_POINTER, put_assignment, author, "Assign the first principal to it")
    grant: Value = {"role": ADMIN_ROLE, "role_id": role_id, "right": ADMIN_RIGHT, "path": []}
    _put(kernel, GRANTS_POINTER, PutRecord(type=GRANT, key=ADMIN_GRANT_KEY, value=grant), author, "Grant it everything")


def _put(kernel: RealmKernel, pointer: str, put: PutRecord, author: str, message: str) -> None:
    kernel.committer.commit(pointer, RecordsRequest(operations=[put], author=author, message=message))


def _content_id(kernel: RealmKernel, pointer: str, key: KeyPath) -> str:
    record = head_records(kernel, pointer).get(key)
    if record is None:
        raise Corruption(f"{'/'.join(key)} is not in {pointer!r}.", remedy="Repeat `headwater realm init`.")
    return record.content_id.hex()


def check_first_records(kernel: RealmKernel, root: Value, principal: NewPrincipal) -> None:
    """Checks that everything is in the store now."""
    rows = kernel.store.backend.read_pointers(kernel.realm, REALM_POINTERS)
    missing: list[str] = [name for name in REALM_POINTERS if name not in rows or not rows[name].head]
    stored_root = head_records(kernel, ROOT_POINTER).get(ROOT_KEY)
    stored_principal = head_records(kernel, PRINCIPALS_POINTER).get(PRINCIPAL_KEY)
    if stored_root is None or stored_root.value != root:
        missing.append("the root entity")
    if stored_principal is None or stored_principal.value != principal.value:
        missing.append("the first principal")
    rights = ((ROLES_POINTER, ADMIN_ROLE_KEY), (ROLES_POINTER, ADMIN_ASSIGNMENT_KEY), (GRANTS_POINTER, ADMIN_GRANT_KEY))
    missing += ["/".join(key) for pointer, key in rights if head_records(kernel, pointer).get(key) is None]
    if missing:
        raise Corruption(
            f"{kernel.realm!r} was initialized, but the store does not show: {', '.join(missing)}.",
            remedy="Repeat `headwater realm init`.",
        )
