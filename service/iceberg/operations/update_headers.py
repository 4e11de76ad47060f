"""Records what a request did to tables and views as headers of its commit, from which events are built.

The Change itself says which keys moved from which metadata to which; these headers add the updates as the client sent them.
They are included if they fit an entry, and left out if not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from headwater.schemas.change import KeyPath

OPERATION = "iceberg.operation"
PURGE = "iceberg.purge"
UPDATES = "iceberg.updates"
UPDATES_BYTES_MAX = 12_000

Updates = list[dict[str, Any]]


def headers_of(operation: str, updates: Sequence[tuple[KeyPath, Sequence[Any]]] = ()) -> dict[str, str]:
    headers = {OPERATION: operation}
    encoded = msgspec.json.encode(list(updates))
    if updates and len(encoded) <= UPDATES_BYTES_MAX:
        headers[UPDATES] = encoded.decode()
    return headers


def updates_from_headers(headers: Mapping[str, str]) -> dict[KeyPath, Updates]:
    """Anybody may write such headers through another API: what cannot be read counts as absent."""
    try:
        pairs = msgspec.json.decode(headers.get(UPDATES, "[]"), type=list[tuple[tuple[str, ...], Updates]])
    except msgspec.DecodeError:
        return {}
    return dict(pairs)


def creation(metadata: Mapping[str, Any]) -> Updates:
    """The updates that make a table from nothing."""
    updates: Updates = [
        {"action": "assign-uuid", "uuid": metadata["table-uuid"]},
        {"action": "upgrade-format-version", "format-version": metadata["format-version"]},
    ]
    updates += [{"action": "add-schema", "schema": schema} for schema in metadata.get("schemas", [])]
    updates.append({"action": "set-current-schema", "schema-id": metadata.get("current-schema-id", 0)})
    updates += [{"action": "add-spec", "spec": spec} for spec in metadata.get("partition-specs", [])]
    updates.append({"action": "set-default-spec", "spec-id": metadata.get("default-spec-id", 0)})
    updates += [{"action": "add-sort-order", "sort-order": order} for order in metadata.get("sort-orders", [])]
    updates.append({"action": "set-default-sort-order", "sort-order-id": metadata.get("default-sort-order-id", 0)})
    updates.append({"action": "set-location", "location": metadata["location"]})
    updates.append({"action": "set-properties", "updates": metadata.get("properties", {})})
    return updates


def view_creation(metadata: Mapping[str, Any]) -> Updates:
    """The updates that make a view from nothing."""
    return [
        {"action": "assign-uuid", "uuid": metadata["view-uuid"]},
        {"action": "upgrade-format-version", "format-version": metadata["format-version"]},
        *({"action": "add-schema", "schema": schema} for schema in metadata["schemas"]),
        {"action": "set-location", "location": metadata["location"]},
        {"action": "set-properties", "updates": metadata.get("properties", {})},
        *({"action": "add-view-version", "view-version": version} for version in metadata["versions"]),
        {"action": "set-current-view-version", "view-version-id": metadata["current-version-id"]},
    ]
