"""Hashes secrets with a salted, memory-hard function, and compares them."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Callable
from typing import Annotated

import msgspec
from msgspec import Meta

from headwater.schemas.errors import Corruption

Entropy = Callable[[int], bytes]

SALT_BYTES = 16
HASH_BYTES = 32


class ScryptCost(msgspec.Struct, frozen=True, kw_only=True):
    """Memory is 128 · n · r bytes: 16 MiB with these, five times over, which follows OWASP's list of equal choices."""

    n: Annotated[int, Meta(ge=2)] = 2**14
    r: Annotated[int, Meta(ge=1)] = 8
    p: Annotated[int, Meta(ge=1)] = 5


def hash_secret(secret: str, cost: ScryptCost, entropy: Entropy) -> str:
    """`scrypt$n,r,p$salt$hash`: everything that a check needs, so that the cost parameters can be raised later."""
    salt = entropy(SALT_BYTES)
    return f"scrypt${cost.n},{cost.r},{cost.p}${_text(salt)}${_text(_scrypt(secret, salt, cost))}"


def is_secret(secret: str, hashed: str) -> bool:
    try:
        scheme, costs, salt, expected = hashed.split("$")
        n, r, p = (int(cost) for cost in costs.split(","))
        if scheme != "scrypt":
            raise ValueError(scheme)
        found = _scrypt(secret, base64.b64decode(salt, validate=True), ScryptCost(n=n, r=r, p=p))
        return hmac.compare_digest(found, base64.b64decode(expected, validate=True))
    except ValueError as error:
        raise Corruption("a stored secret hash cannot be read.", remedy="Make a new secret.") from error


def _scrypt(secret: str, salt: bytes, cost: ScryptCost) -> bytes:
    memory_bytes = 128 * cost.r * (cost.n + cost.p + 2)
    return hashlib.scrypt(
        secret.encode(), salt=salt, n=cost.n, r=cost.r, p=cost.p, maxmem=memory_bytes + 1024 * 1024, dklen=HASH_BYTES
    )


def _text(raw: bytes) -> str:
    return base64.b64encode(raw).decode()
