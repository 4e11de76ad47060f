"""Gives up the history of one dropped table that an operator names, so that its files need not wait for it.

⚠ The order is the protocol. The record is written first; from now on nothing brings the table back. Then the purge fences every
realm and looks at what the heads and readers hold: if anything does, the record is withdrawn, and nothing was deleted. It is
settled after the second fence, before the first file goes; only a settled record counts for sweeps and verifications. A run
that dies before that leaves a record that the next run withdraws.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from uuid import UUID

import msgspec

from headwater.persistence.clock import MICROS
from headwater.persistence.realms.realm_states import RealmStatus
from headwater.persistence.store import Store
from headwater.producer.forgotten_tables import ForgottenTable, ForgottenTables
from headwater.producer.immediate_tasks import ImmediateTask, ImmediateTasks, TaskState
from headwater.producer.pointer_names import parse_reference_pointer
from headwater.schemas.errors import InvalidInput, MaintenanceRefused
from headwater.streaming.expire.pins import history_pins
from headwater.streaming.files.marks.table_histories import IsWanted, TableHistory, table_history
from headwater.streaming.reachability.retained_identifiers import Span
from headwater.streaming.runs.realm_sets import all_realms

HOLDERS_TOLD_MAX = 5
WAITING = (TaskState.HELD, TaskState.WAITING_FOR_FILE_DELETION)


class NamedTask(msgspec.Struct, frozen=True, kw_only=True):
    """The task of the table whose history an operator gives up."""

    realm: str
    id: str
    author: str


def named_task(store: Store, name: str, author: str) -> NamedTask:
    """By the id of the task or the name of the table; of any realm that can be written to."""
    active = [realm.instance for realm in all_realms(store) if realm.status is RealmStatus.ACTIVE]
    held = [(realm, task) for realm in active for task in ImmediateTasks(store.kernel(realm)).held()]
    found = [(realm, task) for realm, task in held if name in (task.id, ".".join(task.key)) and task.content_id]
    if not found:
        raise InvalidInput(
            f"no table {name[:200]!r} was dropped with PURGE and waits.",
            field="--forget-history",
            remedy="`headwater maintain files tasks` lists those that wait. Other dropped tables keep their history.",
        )
    if len(found) > 1:
        raise InvalidInput(
            f"{len(found)} dropped tables are named {name[:200]!r}.",
            field="--forget-history",
            remedy=f"Name the task: {', '.join(task.id for _, task in found[:HOLDERS_TOLD_MAX])}.",
        )
    realm, task = found[0]
    return NamedTask(realm=realm, id=task.id, author=author)


class Forgetting:
    """Of one run."""

    def __init__(
        self, store: Store, named: NamedTask | None, *, dry_run: bool = False, checks: bool = True, at: Callable[[str], None]
    ) -> None:
        """`checks` lets tests show that what heads and readers hold must be looked at; `at` is called before the record is
        written."""
        self._store = store
        self._named = named
        self._dry_run = dry_run
        self._checks = checks
        self._at = at
        self.versions: dict[str, frozenset[int]] = {}
        """By realm: what this run's marks leave out, beside settled records."""

    @property
    def is_asked(self) -> bool:
        return self._named is not None

    def is_named(self, realm: str, task: ImmediateTask) -> bool:
        return self._named is not None and (realm, task.id) == (self._named.realm, self._named.id)

    def require_due(self, task: ImmediateTask, wait_seconds: float) -> None:
        left_seconds = wait_seconds - (self._store.clock.now_micros() - task.created_at) / MICROS
        if left_seconds > 0:
            raise MaintenanceRefused(
                f"'{'.'.join(task.key)}' was dropped a moment ago.",
                field="--forget-history",
                remedy=f"Nothing was deleted. Run it again in {left_seconds:.0f} seconds.",
            )

    def is_settled(self, realm: str, task: ImmediateTask) -> bool:
        table = self._table(realm, task)
        return table is not None and table.is_settled

    def withdraw_unsettled(self, realm: str, task: ImmediateTask) -> None:
        """What a run has left that died before it deleted anything."""
        table = self._table(realm, task)
        if table is not None and not table.is_settled and not self._dry_run:
            self._tables(realm).withdraw(table, task.created_by)

    def begin(self, realm: str, task: ImmediateTask) -> list[str]:
        """Who holds the table; if nobody does, its history counts as given up in this run."""
        spans = {
            name: Span(floor=min(row.floor, row.seq), head=row.head, seq=row.seq)
            for name, row in self._store.backend.all_pointers(realm)
            if row.head
        }
        found = table_history(self._store.backend, realm, spans, _is_of(task))
        holders = self._holders(realm, found)
        if holders:
            return holders
        self.versions[realm] = frozenset(found.versions)
        if not self._dry_run and not self.is_settled(realm, task):
            self._at("forget")
            self._put(realm, task, found)
        return []

    def check(self, realm: str, task: ImmediateTask, spans: Mapping[str, Span]) -> list[str]:
        """⚠ After the fence. If somebody holds the table now, its history stays."""
        if self.is_settled(realm, task):
            return []
        found = table_history(self._store.backend, realm, spans, _is_of(task))
        holders = self._holders(realm, found)
        if not holders and not set(found.versions) <= self.versions.get(realm, frozenset()):
            holders = ["it was changed meanwhile: try again"]
        if holders:
            self.withdraw_unsettled(realm, task)
        return holders

    def settle(self, realm: str, task: ImmediateTask) -> None:
        """⚠ Before the first file of the table is deleted."""
        table = self._table(realm, task)
        if table is not None and not table.is_settled:
            author = task.created_by if self._named is None else self._named.author
            self._tables(realm).put(msgspec.structs.replace(table, is_settled=True), author)

    def locations(self, realm: str, task: ImmediateTask, spans: Mapping[str, Span]) -> list[str]:
        """The metadata files of all retained versions of a table whose history is given up; of others none."""
        is_given_up = self.is_named(realm, task) or self.is_settled(realm, task)
        if not is_given_up:
            return []
        found = table_history(self._store.backend, realm, spans, _is_of(task))
        return sorted({one for one in found.versions.values() if one})

    def _holders(self, realm: str, history: TableHistory) -> list[str]:
        if not self._checks:
            return []
        kernel, now = self._store.kernel(realm), self._store.clock.now_micros()
        rows = dict(self._store.backend.all_pointers(realm))
        holders = [_name(pointer) for pointer in history.live]
        for pin in history_pins(kernel, now, rows):
            if pin.until > now and pin.seq < history.last_seqs.get(pin.pointer, 0) and pin.holder not in holders:
                holders.append(pin.holder)
        return holders[:HOLDERS_TOLD_MAX]

    def _put(self, realm: str, task: ImmediateTask, history: TableHistory) -> None:
        author = task.created_by if self._named is None else self._named.author
        table = ForgottenTable(
            content_id=task.content_id,
            keys=history.keys,
            versions=sorted(history.versions),
            pointer=task.pointer,
            task_id=task.id,
            forgotten_at=self._store.clock.now_micros(),
        )
        self._tables(realm).put(table, author)

    def _tables(self, realm: str) -> ForgottenTables:
        return ForgottenTables(self._store.kernel(realm))

    def _table(self, realm: str, task: ImmediateTask) -> ForgottenTable | None:
        return self._tables(realm).get(task.id)


def _is_of(task: ImmediateTask) -> IsWanted:
    wanted = _content_id(task)
    return lambda content_id, _: content_id == wanted


def _content_id(task: ImmediateTask) -> bytes:
    return UUID(task.content_id).bytes


def _name(pointer: str) -> str:
    named = parse_reference_pointer(pointer)
    return pointer if named is None else f"{named.type.lower()} {named.name}"
