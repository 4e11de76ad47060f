"""Types of columns, each once in a bundle. An id is a hash of the canonical form, so it is the same in every bundle. Pure."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

_canonical = msgspec.json.Encoder(order="deterministic").encode


class RelationType(msgspec.Struct, frozen=True):
    id: int
    name: str
    json: str


def relation_type(type: Any) -> RelationType:
    """The relation type for a type as Iceberg's schemas write it."""
    canonical = _canonical(type)
    name = str(type.get("type", "struct")) if isinstance(type, dict) else str(type)
    return RelationType(int.from_bytes(hashlib.sha256(canonical).digest()[:8], "big"), name, canonical.decode())
