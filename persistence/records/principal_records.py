"""Principal records; a secret is shown once and kept only as a hash, in a row of its own.

⚠ Records are in the log, and the log goes to readers, Kafka and archives. So the record holds only the ids of secrets; hashes
lie in mutable rows that no feed or snapshot ever reads, and an export only on request. The record decides which are valid.
"""

from __future__ import annotations

import base64
from typing import NamedTuple

import msgspec

from headwater.persistence.coordination.cas_rows import cas_row
from headwater.persistence.objects.object_types import OBJECT_TYPES, Life, ObjectType
from headwater.persistence.records.records import RecordType
from headwater.persistence.records.secret_hashes import Entropy, ScryptCost, hash_secret, is_secret
from headwater.persistence.rows import MutableRow
from headwater.persistence.store import RealmKernel
from headwater.schemas.change import Value
from headwater.schemas.errors import Corruption

PRINCIPALS_POINTER = "principals"
PRINCIPAL = RecordType("PRINCIPAL", 1)
ROOT_PRINCIPAL = "root"

ROLES_POINTER = "principal-roles"
PRINCIPAL_ROLE = RecordType("PRINCIPAL_ROLE", 1)
ROLE_ASSIGNMENT = RecordType("ROLE_ASSIGNMENT", 2)
GRANTS_POINTER = "grants"
GRANT = RecordType("GRANT", 1)
ADMIN_ROLE = "realm-admin"
"""The role of the first principal; it is granted `ADMIN_RIGHT` over the realm."""
ADMIN_RIGHT = "realm.manage"

SECRET_TYPE = "principal-secret"  # noqa: S105 - the name of a row type
KEYS_TYPE = "signing-keys"
"""Rows of the keys that a realm instance signs tokens with. ⚠ They never leave the store, whatever is exported."""
CLIENT_ID_BYTES = 8
SECRET_ID_BYTES = 4
SECRET_BYTES = 32


class SecretRecord(msgspec.Struct, frozen=True, array_like=True):
    """The payload of a secret's row, whose key is client id and secret id. Append new fields, never move one."""

    principal: str
    hash: str


OBJECT_TYPES.register(ObjectType(SECRET_TYPE, SecretRecord, Life.MUTABLE))


class NewSecret(NamedTuple):
    id: str
    text: str
    """Shown to its owner only, and never recoverable. Begins with the id, so that checking it costs one hash."""
    row: MutableRow


class NewPrincipal(NamedTuple):
    value: Value
    """What is stored in the log."""
    client_id: str
    client_secret: str
    secret: MutableRow
    """What is stored beside it, before it."""


def new_principal(name: str, created_at: int, cost: ScryptCost, entropy: Entropy) -> NewPrincipal:
    client_id = entropy(CLIENT_ID_BYTES).hex()
    secret = new_secret(client_id, name, created_at, cost, entropy)
    value: Value = {
        "name": name,
        "client_id": client_id,
        "secrets": [secret_reference(secret.id, created_at)],
        "properties": {},
        "created_at": created_at,
    }
    return NewPrincipal(value, client_id, secret.text, secret.row)


def new_secret(client_id: str, principal: str, created_at: int, cost: ScryptCost, entropy: Entropy) -> NewSecret:
    secret_id = entropy(SECRET_ID_BYTES).hex()
    text = f"{secret_id}_{base64.urlsafe_b64encode(entropy(SECRET_BYTES)).rstrip(b'=').decode()}"
    record = SecretRecord(principal, hash_secret(text, cost, entropy))
    row = MutableRow(
        type=SECRET_TYPE,
        key=secret_key(client_id, secret_id),
        created_at=created_at,
        payload=msgspec.msgpack.encode(record),
    )
    return NewSecret(secret_id, text, row)


def secret_reference(secret_id: str, created_at: int, expires_at: int = 0) -> Value:
    """How a principal's record names a secret that is valid until then (microseconds; 0 means for ever)."""
    return {"id": secret_id, "created_at": created_at, "expires_at": expires_at}


def secret_key(client_id: str, secret_id: str) -> str:
    return f"{client_id}.{secret_id}"


def keep_secret(kernel: RealmKernel, row: MutableRow) -> None:
    """⚠ Call it before the record that names the secret is committed: a record never names a secret that is not there."""
    if not cas_row(kernel.store.backend, kernel.realm, None, row, kernel.store.clock, has_token=True):
        raise Corruption("a new secret could not be kept.", remedy="Repeat the call.")


def read_secret(kernel: RealmKernel, client_id: str, secret: str) -> SecretRecord | None:
    """The row that a secret claims to be of; it proves nothing yet."""
    secret_id = secret.partition("_")[0]
    if len(secret_id) != 2 * SECRET_ID_BYTES or len(client_id) > 256:
        return None
    row = kernel.store.backend.read_mutable(kernel.realm, SECRET_TYPE, secret_key(client_id, secret_id))
    return None if row is None else msgspec.msgpack.decode(row.payload, type=SecretRecord)


def names_secret(principal: Value, secret: str, now: int) -> bool:
    """Whether the record lets a secret with this id count at that time."""
    secret_id = secret.partition("_")[0]
    return any(one["id"] == secret_id and not 0 < one["expires_at"] <= now for one in principal["secrets"])


def has_secret(kernel: RealmKernel, principal: Value, secret: str) -> bool:
    kept = read_secret(kernel, str(principal["client_id"]), secret)
    now = kernel.store.clock.now_micros()
    return kept is not None and names_secret(principal, secret, now) and is_secret(secret, kept.hash)
