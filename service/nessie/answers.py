"""References, commits, keys and diffs as the JSON that Nessie's clients read."""

from __future__ import annotations

from typing import Any

from headwater.persistence.log.log_entry import Content, LogRecord, StoredOperation, parent
from headwater.producer.pointer_names import ReferenceType
from headwater.schemas.change import KeyPath, Op
from headwater.service.nessie.content_json import content_json
from headwater.service.nessie.meta_json import meta_json
from headwater.service.nessie.operations.catalog_view import Effective
from headwater.service.nessie.reference_paths import DETACHED


def reference_json(name: str | None, type: ReferenceType | None, hash: str) -> dict[str, Any]:
    if name is None or type is None:
        return {"type": DETACHED, "hash": hash}
    return {"type": str(type), "name": name, "hash": hash}


def effective_json(found: Effective) -> dict[str, Any]:
    return reference_json(found.name, found.type, found.hash)


def page_json(token: str | None, **fields: Any) -> dict[str, Any]:
    """A page; what a last page does not have is left out."""
    return {"hasMore": False, **fields} if token is None else {"hasMore": True, "token": token, **fields}


def key_json(key: KeyPath) -> dict[str, Any]:
    return {"elements": key}


def stored_json(key: KeyPath, content: Content) -> dict[str, Any]:
    return content_json(key, content.type, content.content_id, content.value)


def log_entry_json(logged: LogRecord, *, operations: bool) -> dict[str, Any]:
    fields: dict[str, Any] = {"commitMeta": meta_json(logged), "parentCommitHash": parent(logged.entry).hex()}
    if operations:
        fields["operations"] = [one for op in logged.entry.operations for one in _operation(op)]
    return fields


def _operation(op: StoredOperation) -> list[dict[str, Any]]:
    """A rename is shown as what it is in Nessie: a delete, and a put of the same content id."""
    deleted = op.key if op.op is Op.DELETE else op.from_key
    operations: list[dict[str, Any]] = [] if deleted is None else [{"type": "DELETE", "key": key_json(deleted)}]
    if op.after is not None:
        content = content_json(op.key, op.type, op.content_id, op.after)
        operations.append({"type": "PUT", "key": key_json(op.key), "content": content})
    return operations
