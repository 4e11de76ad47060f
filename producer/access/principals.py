"""The principals of a realm and their secrets: each secret is shown once, two are valid while they rotate."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

import msgspec

from headwater.persistence.clock import MICROS
from headwater.persistence.commit.commit_outcome import CommitOutcome
from headwater.persistence.coordination.cas_rows import delete_row
from headwater.persistence.records.principal_records import (
    CLIENT_ID_BYTES,
    PRINCIPAL,
    PRINCIPALS_POINTER,
    SECRET_TYPE,
    NewSecret,
    keep_secret,
    new_secret,
    secret_key,
    secret_reference,
)
from headwater.persistence.records.records import (
    DeleteRecord,
    Expect,
    Expectation,
    PutRecord,
    Record,
)
from headwater.persistence.records.secret_hashes import Entropy, ScryptCost
from headwater.persistence.rows import MutableRow
from headwater.persistence.store import RealmKernel
from headwater.producer.access.named_records import NamedRecords, unchanged
from headwater.producer.access.writing import (
    WriteMeta,
    Written,
    check_name,
    check_properties,
    expected_version,
    version_of,
)
from headwater.schemas.change import Value
from headwater.schemas.errors import InvalidInput

PAGE_MAX = 1_000
OVERLAP_SECONDS_MAX = 30 * 24 * 3_600
UNREFERENCED_SECONDS = 3_600
"""How long a secret's row may wait for the record that names it."""


class SecretInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Which secrets count; what they are is not known here."""

    id: str
    created_at: int
    expires_at: int = 0
    """Microseconds; 0 has no end."""


class Principal(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    client_id: str
    secrets: tuple[SecretInfo, ...] = ()
    properties: dict[str, str] = {}
    created_at: int
    id: str = ""
    """The id of the record: a principal that is deleted and re-created under its name has another one."""
    version: str = ""


class Credentials(msgspec.Struct, frozen=True, kw_only=True):
    """Shown this once."""

    client_id: str
    client_secret: str


class WithSecret(msgspec.Struct, frozen=True, kw_only=True):
    principal: Principal
    credentials: Credentials | None
    outcome: CommitOutcome


class Principals:
    """The principals of one realm instance. Nothing is remembered between calls."""

    def __init__(self, kernel: RealmKernel, *, cost: ScryptCost | None = None, entropy: Entropy = secrets.token_bytes) -> None:
        self._kernel = kernel
        self._records = NamedRecords(kernel, PRINCIPALS_POINTER, "principal")
        self._cost = cost or ScryptCost()
        self._entropy = entropy

    # ── reading ─────────────────────────────────────────────────────────────────────────────────────────────

    def get(self, name: str) -> Principal:
        return principal_of(self._records.read(name))

    def find(self, name: str) -> Principal | None:
        record = self._records.state().get((name,))
        return None if record is None else principal_of(record)

    def list(self, *, after: str = "", limit: int = PAGE_MAX) -> list[Principal]:
        """In order of name, after `after`."""
        return [principal_of(record) for record in self._records.page(after, limit)]

    # ── writing ─────────────────────────────────────────────────────────────────────────────────────────────

    def create(
        self, name: str, *, properties: dict[str, str] | None = None, with_secret: bool = True, meta: WriteMeta
    ) -> WithSecret:
        """⚠ When repeated under the same request id, the first secret becomes invalid and a new one is shown, because nobody
        knows whether its answer arrived. One without a secret is known by an external issuer alone."""
        check_name(name, "principal")
        now = self._now()
        client_id = self._entropy(CLIENT_ID_BYTES).hex()
        secret = self._keep_new(client_id, name, now) if with_secret else None
        value: Value = {
            "name": name,
            "client_id": client_id,
            "secrets": [] if secret is None else [secret_reference(secret.id, now)],
            "properties": check_properties(properties),
            "created_at": now,
        }
        put = PutRecord(type=PRINCIPAL, key=(name,), value=value, expect=Expect.ABSENT)
        outcome = self._records.commit([put], meta, f"Create principal {name}")
        if outcome.replayed and with_secret:
            again = msgspec.structs.replace(meta, request_id=None)
            rotated = self.rotate_secret(name, overlap_seconds=0, meta=again)
            return WithSecret(principal=rotated.principal, credentials=rotated.credentials, outcome=outcome)
        credentials = None if secret is None else Credentials(client_id=client_id, client_secret=secret.text)
        return WithSecret(principal=self.get(name), credentials=credentials, outcome=outcome)

    def update(
        self, name: str, *, properties: dict[str, str], version: str | None = None, meta: WriteMeta
    ) -> Written[Principal]:
        record = self._records.read(name)
        value = {**record.value, "properties": check_properties(properties)}
        expect = unchanged(record, version)
        outcome = self._records.commit([_put(name, value, expect)], meta, f"Update principal {name}")
        return Written(value=self.get(name), outcome=outcome)

    def rotate_secret(self, name: str, *, overlap_seconds: int = 0, version: str | None = None, meta: WriteMeta) -> WithSecret:
        """A new secret; the newest old one counts for the overlap, all others end now. Without an overlap it is a reset."""
        if not 0 <= overlap_seconds <= OVERLAP_SECONDS_MAX:
            raise InvalidInput(
                f"{overlap_seconds} seconds.", field="overlap_seconds", remedy=f"Use 0 to {OVERLAP_SECONDS_MAX}."
            )
        record, now = self._records.read(name), self._now()
        before = principal_of(record)
        secret = self._keep_new(before.client_id, name, now)
        kept = _overlapping(before, now, overlap_seconds)
        value = {**record.value, "secrets": [*kept, secret_reference(secret.id, now)]}
        expect = unchanged(record, version)
        outcome = self._records.commit([_put(name, value, expect)], meta, f"Rotate the secret of {name}")
        if outcome.replayed:
            return self._show_another(name, outcome, meta)
        principal = self.get(name)
        self._delete_rows(before.client_id, {one.id for one in before.secrets} - {one.id for one in principal.secrets})
        credentials = Credentials(client_id=before.client_id, client_secret=secret.text)
        return WithSecret(principal=principal, credentials=credentials, outcome=outcome)

    def _show_another(self, name: str, done: CommitOutcome, meta: WriteMeta) -> WithSecret:
        """⚠ A rotation that was asked for again: of its secret nobody knows whether the answer arrived, so a new one takes
        its place, and the one before still counts for the overlap that it was given."""
        record, now = self._records.read(name), self._now()
        before = principal_of(record)
        secret = self._keep_new(before.client_id, name, now)
        newest = max(before.secrets, key=lambda one: one.created_at, default=None)
        kept = [one for one in record.value["secrets"] if newest is None or one["id"] != newest.id]
        value = {**record.value, "secrets": [*kept, secret_reference(secret.id, now)]}
        again = msgspec.structs.replace(meta, request_id=None)
        self._records.commit(
            [_put(name, value, expected_version(version_of(record)))], again, f"Rotate the secret of {name} again"
        )
        if newest is not None:
            self._delete_rows(before.client_id, {newest.id})
        credentials = Credentials(client_id=before.client_id, client_secret=secret.text)
        return WithSecret(principal=self.get(name), credentials=credentials, outcome=done)

    def delete(self, name: str, *, version: str | None = None, meta: WriteMeta) -> CommitOutcome:
        """Its tokens end with it. What names it elsewhere names its id, so a later one of that name inherits nothing."""
        record = self._records.read(name)
        expect = unchanged(record, version)
        outcome = self._records.commit([DeleteRecord(key=(name,), expect=expect)], meta, f"Delete principal {name}")
        principal = principal_of(record)
        self._delete_rows(principal.client_id, {one.id for one in principal.secrets})
        return outcome

    # ── rows of secrets ─────────────────────────────────────────────────────────────────────────────────────

    def forget_unreferenced(self, *, older_than_seconds: int = UNREFERENCED_SECONDS) -> int:
        """Delete rows of secrets that no record names: what crashes between the row and its record, or after it, left."""
        before = self._now() - older_than_seconds * MICROS
        all_rows = self._kernel.store.backend.all_mutable(self._kernel.realm, SECRET_TYPE)
        rows = [row for row in all_rows if row.created_at < before]
        state = self._records.state()  # read after the rows: a row that was old then and is not named now is named by no record
        named = {
            secret_key(one.client_id, secret.id)
            for one in (principal_of(record) for record in state.all())
            for secret in one.secrets
        }
        gone = [row for row in rows if row.key not in named]
        return sum(self._delete_row(row) for row in gone)

    def _keep_new(self, client_id: str, name: str, now: int) -> NewSecret:
        made = new_secret(client_id, name, now, self._cost, self._entropy)
        keep_secret(self._kernel, made.row)
        return made

    def _delete_rows(self, client_id: str, secret_ids: set[str]) -> None:
        """They count no more already; what a crash leaves is forgotten later."""
        backend, realm = self._kernel.store.backend, self._kernel.realm
        for secret_id in secret_ids:
            row = backend.read_mutable(realm, SECRET_TYPE, secret_key(client_id, secret_id))
            if row is not None:
                self._delete_row(row)

    def _delete_row(self, row: MutableRow) -> bool:
        return delete_row(self._kernel.store.backend, self._kernel.realm, row, self._kernel.store.clock)

    def _now(self) -> int:
        return self._kernel.store.clock.now_micros()


def principal_of(record: Record) -> Principal:
    return msgspec.convert(record.value | {"id": record.content_id.hex(), "version": version_of(record)}, Principal)


def _put(name: str, value: Value, expect: Expectation) -> PutRecord:
    return PutRecord(type=PRINCIPAL, key=(name,), value=value, expect=expect)


def _overlapping(principal: Principal, now: int, overlap_seconds: int) -> Sequence[Value]:
    """The secret that stays valid beside a new one: the newest old one, for the overlap and no longer than before."""
    live = [one for one in principal.secrets if not 0 < one.expires_at <= now]
    if not live or not overlap_seconds:
        return []
    newest = max(live, key=lambda one: one.created_at)
    ends = now + overlap_seconds * MICROS
    return [secret_reference(newest.id, newest.created_at, min(ends, newest.expires_at) if newest.expires_at else ends)]
