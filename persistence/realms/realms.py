"""Creates, initializes, opens, closes, purges and deletes realms; each move is one CAS.

All else knows a realm by its *instance*, so that a name that is used again starts empty. Only what `require_active` hands out
serves users. Each step may be repeated after a crash; of several processes that move one realm at once, one continues.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import msgspec

from headwater.persistence.coordination.pointer_fences import fence_pointers
from headwater.persistence.coordination.pointer_writes import ROWS_AT_ONCE
from headwater.persistence.coordination.realm_fence import RealmFence, next_open_fence, read_realm_fence, take_realm_fence
from headwater.persistence.log.committed_requests import RequestKey
from headwater.persistence.log.log_entry import LogRecord
from headwater.persistence.realms.realm_init import check_first_records, expected_principal, write_first_records
from headwater.persistence.realms.realm_purge import PurgeCounts, purge_rows
from headwater.persistence.realms.realm_records import Realm, RealmRead, RealmRecords, busy, check_description
from headwater.persistence.realms.realm_states import NEXT_STEP, RealmStatus, check_is, check_move
from headwater.persistence.records.principal_records import ROOT_PRINCIPAL, new_principal
from headwater.persistence.records.secret_hashes import Entropy, ScryptCost
from headwater.persistence.rows import FENCE_CLOSED, PointerRow
from headwater.persistence.store import RealmKernel, Store
from headwater.schemas.change import Value
from headwater.schemas.errors import RealmNotActive, RemovalUnderWay

FENCE_TRIES_MAX = 50


class InitializedRealm(msgspec.Struct, frozen=True, kw_only=True):
    realm: Realm
    principal: str
    client_id: str
    client_secret: str
    """Shown only once; the store has only a hash of it."""


class RealmPointer(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    seq: int
    closed: bool


class RealmReport(msgspec.Struct, frozen=True, kw_only=True):
    realm: Realm
    pointers: list[RealmPointer]
    """The first thousand, in order of name."""


class Realms:
    """The realms of one store. Every call reads what is there now: nothing is remembered between calls."""

    def __init__(
        self,
        store: Store,
        *,
        author: str = "headwater",
        secret_cost: ScryptCost | None = None,
        entropy: Entropy = secrets.token_bytes,
    ) -> None:
        self._store = store
        self._records = RealmRecords(store, author)
        self._author = author
        self._secret_cost = secret_cost or ScryptCost()
        self._entropy = entropy

    @property
    def last_entry(self) -> LogRecord | None:
        """The log entry of the last move through this object."""
        return self._records.last_entry

    # ── reading ─────────────────────────────────────────────────────────────────────────────────────────────

    def get(self, name: str) -> Realm:
        return self._records.read(name).realm

    def list(self, *, after: str = "", limit: int = 1_000) -> list[Realm]:
        """A page in order of name, after `after`."""
        return self._records.page(after, limit)

    def all(self) -> Iterator[Realm]:
        """Every one, in order of name and of one moment."""
        return self._records.all()

    def show(self, name: str) -> RealmReport:
        realm = self.get(name)
        names = self._store.backend.list_names(realm.instance)
        rows = self._store.backend.read_pointers(realm.instance, names)
        pointers = [
            RealmPointer(name=name, seq=rows[name].seq, closed=_is_closed(rows[name])) for name in names if name in rows
        ]
        return RealmReport(realm=realm, pointers=pointers)

    def require_active(self, name: str) -> RealmKernel:
        """The realm for user requests: it must be ACTIVE."""
        realm = self.get(name)
        if realm.status is not RealmStatus.ACTIVE:
            raise RealmNotActive(
                f"{name!r} is {realm.status}, not open to users.",
                field="realm",
                remedy=NEXT_STEP[realm.status],
                realm=name,
                status=str(realm.status),
            )
        return self._store.kernel(realm.instance)

    # ── coming to life ──────────────────────────────────────────────────────────────────────────────────────

    def create(self, name: str, *, description: str = "", request_id: str | RequestKey | None = None) -> Realm:
        """Take the name; nothing else is written yet. Under the same request id it is the realm that was made before."""
        return self._records.create(name, request_id, description)

    def describe(self, name: str, description: str) -> Realm:
        """Change the text that is shown with it, in any status. A transition that is under way continues."""
        return self._records.describe(self._records.read(name), description).realm

    def init(self, name: str, *, active: bool = True) -> InitializedRealm:
        """Fill a created realm. After a crash the same call starts over, with a new secret."""
        found = self._records.read(name)
        kernel = self._store.kernel(found.realm.instance)
        expected = expected_principal(kernel)
        filling = self._records.move(found, RealmStatus.INITIALIZING, again=True)
        realm = filling.realm
        principal = new_principal(ROOT_PRINCIPAL, realm.updated_at, self._secret_cost, self._entropy)
        root: Value = {"realm": name, "instance": realm.instance, "created_at": realm.created_at}
        write_first_records(kernel, root, principal, expected, self._author)
        check_first_records(kernel, root, principal)
        return InitializedRealm(
            realm=self._filled(filling, active=active),
            principal=ROOT_PRINCIPAL,
            client_id=principal.client_id,
            client_secret=principal.client_secret,
        )

    def start_loading(self, name: str) -> RealmKernel:
        """The kernel of a realm that an export is about to be written into."""
        return self._store.kernel(self._records.move(self._records.read(name), RealmStatus.LOADING).realm.instance)

    def take_loading(self, name: str) -> RealmRead:
        """A realm that is CREATED, or LOADING already; the process that was loading it can no longer finish."""
        return self._records.move(self._records.read(name), RealmStatus.LOADING, again=True)

    def finish_loading(self, name: str, *, active: bool = True, taken: RealmRead | None = None) -> Realm:
        found = taken or self._records.read(name)
        check_is(name, found.realm.status, RealmStatus.LOADING)
        _require_no_removal(self._store, name)
        return self._filled(found, active=active)

    def abandon_loading(self, taken: RealmRead) -> None:
        """Delete its rows and its name. ⚠ Only of the realm that was `taken`: another process may have taken it over since."""
        purging = self._records.move(taken, RealmStatus.PURGING).realm
        self._close(purging)
        self.finish_purge(purging.name)
        self.delete(purging.name)

    def _filled(self, found: RealmRead, *, active: bool) -> Realm:
        if active:
            return self._records.move(found, RealmStatus.ACTIVE).realm
        # No user was served yet, so the record may come first: then no ACTIVE realm is closed by mistake.
        seen = read_realm_fence(self._store.backend, found.realm.instance)
        realm = self._records.move(found, RealmStatus.INACTIVE).realm
        self._fence(seen, FENCE_CLOSED)
        return realm

    # ── opening and closing ─────────────────────────────────────────────────────────────────────────────────

    def deactivate(self, name: str, *, description: str | None = None) -> Realm:
        """⚠ Every pointer is closed first: when the status says INACTIVE, nothing that is acknowledged lands any more. After
        a crash in between the realm is ACTIVE and takes no commits: deactivate it again, or activate it."""
        check_description(description or "")  # before anything is closed
        found, seen = self._read_with_fence(name)
        check_is(name, found.realm.status, RealmStatus.ACTIVE)
        self._fence(seen, FENCE_CLOSED)
        return self._records.move(found, RealmStatus.INACTIVE, description=description).realm

    def activate(self, name: str, *, description: str | None = None) -> Realm:
        """Open every pointer, then say so. A realm that is ACTIVE but closed, because a crash cut its deactivation short, is
        opened too."""
        check_description(description or "")
        found, seen = self._read_with_fence(name)
        if found.realm.status is RealmStatus.ACTIVE and self._has_closed(seen):
            return self._reopen(found, seen, description)
        check_is(name, found.realm.status, RealmStatus.INACTIVE)
        self._fence(seen, self._reopening(seen))
        return self._records.move(found, RealmStatus.ACTIVE, description=description).realm

    def _reopen(self, found: RealmRead, seen: RealmFence, description: str | None) -> Realm:
        """⚠ First the record: a process that is still deactivating the realm can then no longer call it INACTIVE, with pointers
        that were opened meanwhile."""
        again = self._records.move(found, RealmStatus.ACTIVE, again=True, description=description)
        self._fence(seen, self._reopening(seen))
        return again.realm

    # ── going ───────────────────────────────────────────────────────────────────────────────────────────────

    def purge(self, name: str) -> Realm:
        """Mark it: from here there is no way back. ⚠ First the record, then the fence: a process that was about to open the
        realm can no longer say so, and loses the pointers that it has opened already."""
        purging = self._records.move(self._records.read(name), RealmStatus.PURGING).realm
        self._close(purging)
        return purging

    def finish_purge(self, name: str) -> tuple[Realm, PurgeCounts]:
        """Delete the data of a realm that is PURGING, and see that nothing is left."""
        copy = self._store.backend.data_copy()
        found = self.begin_purge(name)
        counts = purge_rows(self._store.backend, found.realm.instance, of=copy)
        return self.end_purge(found), counts

    def begin_purge(self, name: str) -> RealmRead:
        """The record of a realm that is PURGING and closed: now its rows may be deleted."""
        found = self._records.read(name)
        check_move(name, found.realm.status, RealmStatus.PURGED)
        self._close(found.realm)
        return found

    def end_purge(self, found: RealmRead) -> Realm:
        """⚠ Call it only after a scan has found no row of the realm."""
        return self._records.move(found, RealmStatus.PURGED).realm

    def delete(self, name: str) -> None:
        """Free the name. The realm's fence stays closed in `::system::`, for writers that slept through all of this."""
        self._records.delete(self._records.read(name))

    # ── fences ──────────────────────────────────────────────────────────────────────────────────────────────

    def _read_with_fence(self, name: str) -> tuple[RealmRead, RealmFence]:
        """⚠ The record is read after the fence: a process that moves the realm between these two reads and our own step has
        taken the fence, and ours is refused."""
        found = self._records.read(name)
        for _ in range(FENCE_TRIES_MAX):
            fence = read_realm_fence(self._store.backend, found.realm.instance)
            again = self._records.read(name)
            if again == found:
                return found, fence
            found = again
        raise busy(name)

    def _has_closed(self, seen: RealmFence) -> bool:
        """Also while its own fence is open: an activation may have ended in a crash before it came to every pointer."""
        pages = self._store.backend.pointer_pages(seen.realm, page=ROWS_AT_ONCE)
        return seen.is_closed or any(_is_closed(row) for rows in pages for row in rows.values())

    def _reopening(self, seen: RealmFence) -> int:
        return next_open_fence(seen, self._store.clock.now_micros())

    def _fence(self, seen: RealmFence, fence: int) -> None:
        held = take_realm_fence(self._store.backend, seen, fence, self._store.clock)
        if held is None:
            raise busy(seen.realm)
        fence_pointers(self._store.backend, held, self._store.clock)

    def _close(self, realm: Realm) -> None:
        """Close every pointer of the realm, even if other processes fence it meanwhile."""
        backend, clock = self._store.backend, self._store.clock
        for _ in range(FENCE_TRIES_MAX):
            held = take_realm_fence(backend, read_realm_fence(backend, realm.instance), FENCE_CLOSED, clock)
            if held is not None:
                fence_pointers(backend, held, clock)
                return
        raise busy(realm.name)


def _require_no_removal(store: Store, name: str) -> None:
    """⚠ A removal of files that has begun refuses while a realm is loading, and knows nothing of one that comes after that: its
    tables may need what is being deleted."""
    deleting = store.removals.deleting(name, None)
    if deleting:
        raise RemovalUnderWay(
            f"files below {deleting[0].root} are being deleted, which {name!r} may need.",
            field="realm",
            remedy="Finish the import when `headwater maintain files sweep` has ended, after an hour at most.",
            root=deleting[0].root,
        )


def _is_closed(row: PointerRow) -> bool:
    return row.fence == FENCE_CLOSED
