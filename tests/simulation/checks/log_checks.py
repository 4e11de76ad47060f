"""Every write of a pointer's row enters; a broken promise of the log leaves, at the very step that breaks it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from headwater.persistence.log.log_entry import LogRecord
from headwater.persistence.realms.realm_states import RealmStatus
from headwater.persistence.realms.realms import Realms
from headwater.persistence.rows import SYSTEM_REALM, MutableRow, ObjectRow, PointerRow, ScannedRow
from headwater.persistence.store import RealmKernel, Store, StoreOptions
from headwater.schemas.change import Kind
from headwater.schemas.errors import HeadwaterError
from tests.simulation.checks.merge_checks import check_merge
from tests.simulation.promises import broken
from tests.simulation.runtime.virtual import VirtualClock
from tests.simulation.world.database import Database, RowObserver
from tests.simulation.world.model import Model, ModelEntry
from tests.support.models.commit_harness import reachable_at

GIVEN_UP = (RealmStatus.PURGING, RealmStatus.PURGED)


class LogChecks(RowObserver):
    """`chain`, `request-once` and `state`."""

    def __init__(self, database: Database, model: Model) -> None:
        self._database = database
        self._model = model
        self.shadow: dict[tuple[str, int], dict[int, ObjectRow]] = {}
        """Every object that was ever written: what histories looked like before anything was swept."""
        self.floors_raised = 0
        self.objects_deleted = 0
        self.on_floor: Callable[[str, str, PointerRow], object] = lambda realm, name, row: None

    def kernel(self, realm: str) -> RealmKernel:
        """Nothing cached: a cached object proves nothing about the store."""
        return Store(self._database.peek(), StoreOptions(cache_bytes=0), VirtualClock()).kernel(realm)

    # ── writes ──────────────────────────────────────────────────────────────────────────────────────────────

    def objects_written(self, realm: str, rows: Sequence[ObjectRow]) -> None:
        for row in rows:
            self.shadow.setdefault((realm, row.id), {})[row.part] = row

    def mutable_written(self, realm: str, row: MutableRow) -> None: ...

    def pointer_written(self, realm: str, name: str, before: PointerRow | None, after: PointerRow | None) -> None:
        if after is None:
            self._model.logs.pop((realm, name), None)
            return
        if before is not None and after.floor > before.floor:
            self.floors_raised += 1
            self.on_floor(realm, name, after)
        if not after.head or (before is not None and before.head == after.head):
            return
        log = self._model.log(realm, name)
        for logged in self._new_entries(realm, name, after, log):
            self._check_request(realm, name, logged, log)
            if logged.entry.kind is Kind.MERGE:
                check_merge(self._database.peek(), self.shadow, realm, logged, log)
            entry_id = logged.entry_id.hex()
            log.append(ModelEntry(logged.entry.seq, entry_id, logged.entry.request_id, logged, self._model.restores))
            self._model.ever[entry_id] = name

    def _new_entries(self, realm: str, name: str, row: PointerRow, log: list[ModelEntry]) -> list[LogRecord]:
        """Those behind what the model knows, each checked to follow the previous one."""
        if row.seq <= len(log):
            broken("chain", f"{name} went from entry {len(log)} to {row.seq}")
        try:
            kernel = self.kernel(realm)
            newest = kernel.walk.load(row.head)
            entries = kernel.walk.between(newest, len(log) + 1, row.seq)
        except HeadwaterError as error:
            broken("chain", f"{name} at {row.seq} cannot be read: {error}")
        previous = bytes.fromhex(log[-1].entry_id) if log else b""
        for logged in entries:
            if logged.entry.previous != previous:
                known = previous.hex()[:16] or "nothing"
                broken(
                    "chain",
                    f"{name}: entry {logged.entry.seq} follows {logged.entry.previous.hex()[:16]}, the log ended in {known}",
                )
            previous = logged.entry_id
        return entries

    def _check_request(self, realm: str, name: str, logged: LogRecord, log: list[ModelEntry]) -> None:
        request_id = logged.entry.request_id
        for known in log:
            if known.request_id == request_id and realm != SYSTEM_REALM and logged.entry.kind == known.logged.entry.kind:
                broken("request-once", f"{name}: request {request_id} is entry {known.seq} and entry {logged.entry.seq}")

    # ── deletions ───────────────────────────────────────────────────────────────────────────────────────────

    def objects_deleting(self, rows: Sequence[ScannedRow]) -> None:
        """Before they go: none of them is reached by a kept state."""
        for realm in {row.realm for row in rows if row.id and not self._is_purged(row.realm)}:
            going = {row.id for row in rows if row.realm == realm and row.id}
            self.objects_deleted += len(going)
            for name, seq, reached in self.kept_states(realm):
                if lost := reached & going:
                    broken("state", f"{len(lost)} objects are deleted that {name} at entry {seq} reaches")

    def _is_purged(self, instance: str) -> bool:
        """Whether it was given up: of such a realm nothing is kept."""
        listed = Realms(Store(self._database.peek(), StoreOptions(cache_bytes=0), VirtualClock())).list()
        return not any(realm.instance == instance and realm.status not in GIVEN_UP for realm in listed)

    def kept_states(self, realm: str) -> list[tuple[str, int, set[int]]]:
        """Pointer, seq and what it reaches, for all states that the floors keep."""
        kernel, found = self.kernel(realm), []
        for (of, name), log in self._model.logs.items():
            row = kernel.store.backend.read_pointer(realm, name) if of == realm else None
            if row is None or not row.head:
                continue
            for entry in log[row.floor - 1 : row.seq]:
                try:
                    found.append((name, entry.seq, reachable_at(kernel, entry.logged)))
                except HeadwaterError as error:
                    broken("state", f"{name} at entry {entry.seq} cannot be read: {error}")
        return found
