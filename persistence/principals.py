"""A name enters; the record of a principal leaves, and the secret that is shown once and kept only as a hash."""

from __future__ import annotations

import base64
from typing import NamedTuple

from headwater.persistence.records import RecordType
from headwater.persistence.secret_hashes import Entropy, ScryptCost, hash_secret, is_secret
from headwater.schemas.change import Value

PRINCIPALS_POINTER = "principals"
PRINCIPAL = RecordType("PRINCIPAL", 1)
ROOT_PRINCIPAL = "root"

CLIENT_ID_BYTES = 8
SECRET_BYTES = 32


class NewPrincipal(NamedTuple):
    value: Value
    """What is stored."""
    client_id: str
    client_secret: str
    """For its owner alone: nothing can bring it back."""


def new_principal(name: str, created_at: int, cost: ScryptCost, entropy: Entropy) -> NewPrincipal:
    client_id = entropy(CLIENT_ID_BYTES).hex()
    secret = base64.urlsafe_b64encode(entropy(SECRET_BYTES)).rstrip(b"=").decode()
    value: Value = {
        "name": name,
        "client_id": client_id,
        "secret_hash": hash_secret(secret, cost, entropy),
        "created_at": created_at,
    }
    return NewPrincipal(value, client_id, secret)


def has_secret(principal: Value, secret: str) -> bool:
    return is_secret(secret, str(principal["secret_hash"]))
