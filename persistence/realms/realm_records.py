"""The records of realms under the pointer `realms` of `::system::`, each written by one CAS."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from headwater.persistence.log.committed_requests import RequestKey
from headwater.persistence.log.log_entry import LogRecord
from headwater.persistence.realms.realm_states import RealmStatus, check_deletable, check_move
from headwater.persistence.records.records import (
    DeleteRecord,
    Expect,
    Expectation,
    PutRecord,
    Record,
    RecordOperation,
    RecordsRequest,
    RecordType,
    Unchanged,
    head_records,
)
from headwater.persistence.records.resting_records import RestingRecords
from headwater.persistence.store import Store
from headwater.schemas.errors import (
    InvalidInput,
    InvalidName,
    RealmExists,
    RealmNotFound,
    RealmStateConflict,
    RecordChanged,
    RecordExists,
    RecordNotFound,
)

REALMS_POINTER = "realms"
REALM = RecordType("REALM", 1)
NAME_CHARACTERS_MAX = 100
DESCRIPTION_BYTES_MAX = 4_096
RESERVED_NAMES = frozenset({"realms"})
"""Words that the management API's paths have in the place of a realm's name."""
MOVE_TRIES_MAX = 50

_NAME = re.compile(rf"[A-Za-z0-9._-]{{1,{NAME_CHARACTERS_MAX}}}")


class Realm(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A realm as its record describes it."""

    name: str
    instance: str
    """Name and creation id: what rows, topics, leases and cursors carry."""
    status: RealmStatus
    created_at: int
    updated_at: int
    """When it was created or last moved: every move makes it greater, and nothing else changes it."""
    description: str = ""
    described_at: int = 0
    """When the description was last changed by itself."""

    @property
    def changed_at(self) -> int:
        """Greater after every write of the record."""
        return max(self.updated_at, self.described_at)


class RealmRead(msgspec.Struct, frozen=True):
    """A realm, and what the next write of its record requires to be unchanged."""

    realm: Realm
    object_id: int
    """Of the record."""
    history: str
    """⚠ Of the store before the record was read. What is done to a realm between that and the next write, e.g. closing its
    pointers or loading its rows, a restore undoes, and may bring back this very record."""


def check_realm_name(name: str) -> str:
    shown = name if len(name) <= 40 else name[:40] + "…"
    if name in RESERVED_NAMES:
        raise InvalidName(
            f"{name!r} is a word of the management paths.", field="realm", remedy="Choose another name.", realm=name
        )
    if name.startswith("::"):
        raise InvalidName(f"{shown!r} is reserved for the system.", field="realm", remedy="Names must not begin with '::'.")
    if not _NAME.fullmatch(name) or not name.strip("."):  # ⚠ dots alone lead to other folders in paths
        raise InvalidName(
            f"{shown!r} is not a realm name.",
            field="realm",
            remedy=f"Use 1 to {NAME_CHARACTERS_MAX} of the letters A-Z and a-z, digits, '.', '_' and '-', not dots alone.",
        )
    return name


def check_description(text: str) -> str:
    size = len(text.encode(errors="replace"))
    if size > DESCRIPTION_BYTES_MAX:
        raise InvalidInput(
            f"it takes {size} bytes.", field="description", remedy=f"Use at most {DESCRIPTION_BYTES_MAX} bytes of UTF-8."
        )
    if any("\ud800" <= one <= "\udfff" for one in text):
        raise InvalidInput("it is not valid Unicode.", field="description", remedy="Remove lone surrogates.")
    return text


class RealmRecords:
    def __init__(self, store: Store, author: str) -> None:
        self._store = store
        self._author = author
        self.last_entry: LogRecord | None = None
        """What the last write through this object has left in the log."""

    def read(self, name: str) -> RealmRead:
        """Read strongly; `RealmNotFound` if there is none."""
        history = self._store.restores.history
        record = head_records(self._store.system, REALMS_POINTER).get((check_realm_name(name),))
        if record is None:
            raise _not_found(name)
        return RealmRead(_realm(record), record.object_id, history)

    def page(self, after: str, limit: int) -> list[Realm]:
        records = head_records(self._store.system, REALMS_POINTER)
        return [_realm(record) for record in records.page(after=(after,) if after else None, limit=limit)]

    def all(self) -> Iterator[Realm]:
        return map(_realm, head_records(self._store.system, REALMS_POINTER).all())

    def create(self, name: str, request_id: str | RequestKey | None = None, description: str = "") -> Realm:
        check_realm_name(name)
        check_description(description)
        now = self._store.clock.now_micros()
        instance = f"{name}#{self._store.take(1)[0]:016x}"
        realm = Realm(
            name=name,
            instance=instance,
            status=RealmStatus.CREATED,
            created_at=now,
            updated_at=now,
            description=description,
        )
        operations, message = [_put(realm, Expect.ABSENT)], f"Create realm {name}"
        request = RecordsRequest(operations=operations, author=self._author, message=message)
        if request_id is not None:
            key = request_id if isinstance(request_id, RequestKey) else RequestKey(request_id)
            request = msgspec.structs.replace(
                request, request_id=key.id, request_id_is_callers=True, fingerprint=key.fingerprint
            )
        try:
            self._commit(request)
        except RecordExists:
            raise RealmExists(f"{name!r} exists already.", field="realm", remedy="Choose another name.", realm=name) from None
        return realm if request_id is None else self.read(name).realm

    def move(self, found: RealmRead, status: RealmStatus, *, again: bool = False, description: str | None = None) -> RealmRead:
        """`again`: the realm may have this status already; the record is written all the same, which shuts out other movers.
        A description that was written since `found` was read stops no move, and stays."""
        for _ in range(MOVE_TRIES_MAX):
            try:
                return self._move(found, status, again=again, description=description)
            except RealmStateConflict:
                now = self.read(found.realm.name)
                if now.object_id == found.object_id or not _is_only_described(found.realm, now.realm):
                    raise
                found = msgspec.structs.replace(now, history=found.history)
        raise busy(found.realm.name)

    def _move(self, found: RealmRead, status: RealmStatus, *, again: bool, description: str | None) -> RealmRead:
        realm = found.realm
        if not (again and realm.status is status):
            check_move(realm.name, realm.status, status)
        said = realm.description if description is None else check_description(description)
        moved = msgspec.structs.replace(realm, status=status, updated_at=self._after(realm), description=said)
        return self._replace(found, moved, f"{realm.name}: {status}")

    def describe(self, found: RealmRead, description: str) -> RealmRead:
        realm = found.realm
        said = check_description(description)
        described = msgspec.structs.replace(realm, description=said, described_at=self._after(realm))
        return self._replace(found, described, f"Describe realm {realm.name}")

    def _after(self, realm: Realm) -> int:
        return max(self._store.clock.now_micros(), realm.changed_at + 1)

    def _replace(self, found: RealmRead, realm: Realm, message: str) -> RealmRead:
        object_id = self._commit_expecting(found, _put(realm, Unchanged(found.object_id)), message)
        return RealmRead(realm, object_id, found.history)

    def delete(self, found: RealmRead) -> None:
        name = found.realm.name
        check_deletable(name, found.realm.status)
        self._commit_expecting(found, DeleteRecord(key=(name,), expect=Unchanged(found.object_id)), f"Delete realm {name}")

    def _commit_expecting(self, found: RealmRead, operation: RecordOperation, message: str) -> int:
        request = RestingRecords(
            operations=[operation],
            author=self._author,
            message=message,
            restores=self._store.restores,
            history=found.history,
        )
        try:
            return self._commit(request)
        except RecordNotFound:
            raise _not_found(found.realm.name) from None
        except RecordChanged:
            raise busy(found.realm.name) from None

    def _commit(self, request: RecordsRequest) -> int:
        """The object id of the record that was written."""
        answer = self._store.system.committer.commit(REALMS_POINTER, request)
        self.last_entry = answer.logged
        return 0 if answer.logged is None else answer.logged.entry.operations[0].after_id


def _is_only_described(before: Realm, now: Realm) -> bool:
    return (now.instance, now.updated_at) == (before.instance, before.updated_at)


def busy(name: str) -> RealmStateConflict:
    return RealmStateConflict(
        f"another process is moving {name!r}.", field="realm", remedy="Look at its status, then try again.", realm=name
    )


def _put(realm: Realm, expect: Expectation) -> PutRecord:
    return PutRecord(type=REALM, key=(realm.name,), value=msgspec.to_builtins(realm), expect=expect)


def _realm(record: Record) -> Realm:
    return msgspec.convert(record.value, Realm)


def _not_found(name: str) -> RealmNotFound:
    return RealmNotFound(
        f"there is no realm {name!r}.", field="realm", remedy="`headwater realm list` shows those that are.", realm=name
    )
