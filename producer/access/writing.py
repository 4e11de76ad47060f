"""Writes access records to a pointer, one commit for each call."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Generic, TypeVar

import msgspec

from headwater.persistence.commit.commit_outcome import CommitOutcome
from headwater.persistence.log.committed_requests import RequestKey
from headwater.persistence.log.log_entry import LogRecord
from headwater.persistence.records.records import Expect, Expectation, Record, RecordOperation, RecordsRequest, Unchanged
from headwater.persistence.records.resting_records import RestingRecords
from headwater.persistence.store import RealmKernel
from headwater.producer.commits.commit_meta import CommitMeta, check_meta, check_request_id
from headwater.producer.json_safety import check_size, check_text
from headwater.schemas.entry_ids import EMPTY
from headwater.schemas.errors import HeadwaterError, InvalidInput, InvalidName, RecordNotFound

T = TypeVar("T")

PROPERTIES_MAX = 100
_NAME = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.:@+/-]{0,126}[A-Za-z0-9_])?")


class WriteMeta(msgspec.Struct, frozen=True):
    """Who writes and why, and the key under which the write happens once, however often the request is sent."""

    author: str
    message: str = ""
    headers: dict[str, str] = {}
    request_id: str | RequestKey | None = None


class Written(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    value: T
    outcome: CommitOutcome


def commit_records(
    kernel: RealmKernel,
    pointer: str,
    operations: Sequence[RecordOperation],
    meta: WriteMeta,
    message: str,
    *,
    history: str | None = None,
) -> CommitOutcome:
    """All or none, as one entry; nothing to do is not an entry. With `history`, only if the store is still of it."""
    checked = check_meta(CommitMeta(meta.author, meta.message or message, meta.headers))
    request_id, is_callers, fingerprint = check_request_id(meta.request_id)
    request = RecordsRequest(
        operations=operations,
        author=checked.author,
        message=checked.message,
        headers=checked.headers,
        request_id=request_id,
        request_id_is_callers=is_callers,
        fingerprint=fingerprint,
    )
    if history is not None:
        request = RestingRecords(**msgspec.structs.asdict(request), restores=kernel.store.restores, history=history)
    return kernel.committer.commit(pointer, request)


def outcome_of(pointer: str, logged: LogRecord | None, *, replayed: bool) -> CommitOutcome:
    """The result of a commit whose entry was looked up by its request id."""
    if logged is None:
        return CommitOutcome(pointer, None, 0, EMPTY, replayed)
    return CommitOutcome(pointer, logged, logged.entry.seq, logged.commit, replayed)


def version_of(record: Record) -> str:
    """Changes with every write of the record."""
    return f"{record.object_id:x}"


def expected_version(version: str | None) -> Expectation:
    """Expects the record at that version; without a version, expects only that it exists."""
    if version is None:
        return Expect.PRESENT
    try:
        return Unchanged(int(version, 16))
    except ValueError:
        raise InvalidInput(f"{version[:80]!r} is not a version.", field="version", remedy="Send what was read.") from None


def check_name(name: str, what: str) -> str:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidName(
            f"{str(name)[:80]!r} is not a name for a {what}.",
            field=what,
            remedy="Use 1 to 128 letters, digits and _ . : @ + / -, beginning and ending with a letter, digit or _.",
        )
    return name


def check_properties(properties: dict[str, str] | None) -> dict[str, str]:
    found = properties or {}
    if not isinstance(found, dict) or len(found) > PROPERTIES_MAX:
        raise InvalidInput("properties are too many.", field="properties", remedy=f"Send at most {PROPERTIES_MAX}.")
    for name, value in found.items():
        check_text(name, "properties", 1_000, blank=False)
        check_text(value, f"properties.{name}", 10_000)
    check_size(dict(found), "properties")
    return found


def not_found(what: str, name: str) -> HeadwaterError:
    return RecordNotFound(f"there is no {what} {name[:256]!r}.", field=what, remedy=f"List the {what}s, or create it.")
