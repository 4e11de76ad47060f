"""The values that filters see of keys, commits and references."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from headwater.persistence.log.log_entry import LogRecord, StoredOperation
from headwater.schemas.change import KeyPath, Op
from headwater.schemas.entry_ids import content_id_text
from headwater.service.nessie.content_json import nessie_type
from headwater.service.nessie.key_paths import old_key_path
from headwater.service.nessie.meta_json import meta_json

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NO_COMMIT: dict[str, Any] = {
    "hash": "", "committer": "", "author": "", "authors": [], "allAuthors": [], "signedOffBy": "", "allSignedOffBy": [],
    "message": "", "commitTime": _EPOCH, "authorTime": _EPOCH, "properties": {}, "allProperties": {}, "parentCommitHashes": [],
}  # fmt: skip
"""Metadata of a reference whose commit was not requested."""
NO_METADATA: dict[str, Any] = {
    "numCommitsAhead": 0, "numCommitsBehind": 0, "commitMetaOfHEAD": NO_COMMIT, "commonAncestorHash": "", "numTotalCommits": 0,
}  # fmt: skip


def key_value(key: KeyPath) -> dict[str, Any]:
    namespace = key[:-1]
    return {
        "key": ".".join(key),
        "keyElements": list(key),
        "encodedKey": old_key_path(key),
        "namespace": old_key_path(namespace),
        "namespaceElements": list(namespace),
        "name": key[-1],
    }


def commit_value(logged: LogRecord) -> dict[str, Any]:
    fields = meta_json(logged)
    authors, signed = fields["authors"], fields["allSignedOffBy"]
    return {
        **fields,
        "author": authors[0] if authors else "",
        "allAuthors": authors,
        "signedOffBy": signed[0] if signed else "",
        "properties": {name: values[0] for name, values in fields["allProperties"].items() if values},
        "commitTime": _EPOCH + timedelta(microseconds=logged.entry.time),
        "authorTime": datetime.fromisoformat(fields["authorTime"]),
    }


def operation_values(logged: LogRecord) -> list[dict[str, Any]]:
    return [value for op in logged.entry.operations for value in _operation(op)]


def _operation(op: StoredOperation) -> list[dict[str, Any]]:
    content = {"type": nessie_type(op.type), "id": content_id_text(op.content_id)}
    put = {**key_value(op.key), "type": "PUT", "content": content}
    if op.op is Op.PUT:
        return [put]
    if op.op is Op.RENAME and op.from_key is not None:
        return [_delete(op.from_key), put]
    return [_delete(op.key)]


def _delete(key: KeyPath) -> dict[str, Any]:
    return {**key_value(key), "type": "DELETE", "content": {"type": "", "id": ""}}
