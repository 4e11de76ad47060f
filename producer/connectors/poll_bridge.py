"""Follows a source without a log: lists it, observes each table, and commits what is new.

⚠ The content at the destination is the position: a version is committed on the condition that the previous one stands there.
So none is committed twice, and no older one follows a newer one. Versions between two polls are taken from what the source
remembers of them; where it does not reach back, the commit says so in `headwater.observed.gap`.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

import msgspec

from headwater.persistence.store import RealmKernel
from headwater.producer.commits.operations import Delete, Rename
from headwater.producer.connectors.bridge_plan import (
    Held,
    is_same_content,
    new_steps,
    plan_bridge,
    plan_step,
    version_of,
)
from headwater.producer.connectors.connector_records import Connector
from headwater.producer.connectors.destination import Seen
from headwater.producer.connectors.full_rescan import replace_all
from headwater.producer.connectors.log_bridge import CheckContent, EndTurn, KeepGoing, without_end
from headwater.producer.connectors.polled_names import EVERYTHING, Scope, path_text
from headwater.producer.connectors.polled_state import PolledState, SeenTags
from headwater.producer.connectors.reconcile_jobs import Tally
from headwater.producer.connectors.source_positions import SourcePosition
from headwater.producer.connectors.source_spi import Missing, Observation, Source, Step
from headwater.producer.content.content_types import NAMESPACE
from headwater.schemas.change import KeyPath
from headwater.schemas.errors import Conflict, MaintenanceStopped, TableNotFound


class PollBridge:
    def __init__(
        self,
        kernel: RealmKernel,
        connector: Connector,
        source: Source,
        position: SourcePosition,
        tally: Tally,
        *,
        check_content: CheckContent,
        keep_going: KeepGoing,
        end_turn: EndTurn = without_end,
        tags: SeenTags | None = None,
    ) -> None:
        self._state = PolledState(
            kernel, connector, source, tally, check_content=check_content, keep_going=keep_going, tags=tags
        )
        self._position = position
        self._end_turn = end_turn
        self.reached: KeyPath = ()

    def run(self, *, full_rescan: bool = False, scope: Scope = EVERYTHING, after: KeyPath = ()) -> None:
        """An interrupted run leaves in `reached` the table after which the next one continues, and without a scope in the
        position too."""
        names = self._state.load(scope)
        namespaces = {self._state.destination.key(key): one for key, one in names.namespaces.items()}
        if full_rescan:
            replace_all(self._state, self._state.wanted_namespaces(namespaces), names.tables)
        else:
            self.reached = self._position.record.listed_to if scope.is_everything else after
            self._go_through(namespaces, names.tables)
        if scope.is_everything:
            record = self._position.record
            self._position.move(msgspec.structs.replace(record, position="", polls=record.polls + 1))

    def _go_through(self, namespaces: dict[KeyPath, Held], listed: Sequence[KeyPath]) -> None:
        self._write_namespaces(self._state.wanted_namespaces(namespaces))
        try:
            self._follow(listed)
            self._drop_tables({self._state.destination.key(key) for key in listed})
        except MaintenanceStopped:
            if self._state.scope.is_everything:
                self._position.move(self._position.record.with_listed_to(self.reached))
            raise
        self._drop_namespaces(set(namespaces))

    def _follow(self, listed: Sequence[KeyPath]) -> None:
        """Each table as it is read, but for those that changed places with others: they wait until all are known."""
        after, moved = self.reached, dict[KeyPath, Observation]()
        still, settled = {self._state.destination.key(key) for key in listed}, set[KeyPath]()
        for key in listed:
            at = self._state.destination.key(key)
            if key <= after:
                settled.add(at)
                continue
            self._state.keep_going()
            found = self._state.observe(key)
            if isinstance(found, Observation):
                with self._state.counted(key):
                    self._state.require_inside(at, self._state.wanted(key, found, found.steps[-1]), settled)
                    if self._is_elsewhere(at, key, found, still, settled):
                        moved[key] = found
                    else:
                        self._take(key, found, settled)
            elif not isinstance(found, Missing):
                settled.add(at)
            if not moved:  # ⚠ else the next turn would read all of these again, and come no further
                self.reached = key
                self._end_turn()
        self._take_moved(moved, settled)
        self.reached = listed[-1] if listed else after

    def _take_moved(self, moved: dict[KeyPath, Observation], settled: set[KeyPath]) -> None:
        """Renames in an order in which each finds its name free. In a cycle of names, one table is created again."""
        while moved:
            free = (key for key in moved if self._state.destination.key(key) not in self._state.held)
            key = next(free, None) or next(iter(moved))
            with self._state.counted(key):
                self._take(key, moved[key], settled)
            del moved[key]

    def observe_one(self, key: KeyPath) -> None:
        """One table or view of the source, in this moment. What is wrong with it is an error, and not counted."""
        at, head = self._state.destination.key(key), self._state.destination.log.head()
        self._state.held = self._state.destination.at(head, [at])
        found = self._state.source.observe(key, "")
        if not isinstance(found, Observation):
            raise TableNotFound(f"the source has no table {path_text(key)}.", field="upstream", remedy="List its tables.")
        self._state.check(key, found)
        wanted, there = self._state.wanted(key, found, found.steps[-1]), self._state.held.get(at)
        is_other = there is None or not is_same_content(there, wanted)
        known = {one.content_id for one in self._state.destination.everything(head).values()} if is_other else ()
        if wanted.content_id in known and wanted.content_id:
            raise Conflict(f"{path_text(key)} was renamed at the source.", field="upstream", remedy="Reconcile the connector.")
        self._take(key, found, set())

    # ── writing ─────────────────────────────────────────────────────────────────────────────────────────────

    def _write_namespaces(self, wanted: dict[KeyPath, Held]) -> None:
        plan = plan_bridge(self._state.held, wanted, ())
        if plan.then:
            self._state.commit(plan.then, Seen(version="namespaces", message="Observed namespaces"))
            self._state.held |= wanted

    def _is_elsewhere(self, at: KeyPath, key: KeyPath, found: Observation, still: Set[KeyPath], settled: Set[KeyPath]) -> bool:
        """Whether what stands at the key, or what belongs there, may yet turn out to have another name."""
        wanted, there = self._state.wanted(key, found, found.steps[-1]), self._state.held.get(at)
        if there is not None:
            return not is_same_content(there, wanted)
        place = self._state.places.get(wanted.content_id)
        return place in still and place not in settled

    def _move(self, came_from: KeyPath, to: KeyPath, step: Step) -> None:
        there = self._state.held[came_from]
        operation = Rename(came_from, to, expected=there.content)
        message = f"Observed rename of {path_text(came_from)} to {path_text(to)}"
        self._state.commit([operation], Seen(version=version_of(there.value), time=step.time, message=message))
        self._state.held[to] = self._state.held.pop(came_from)
        self._state.places[there.content_id] = to
        self._state.tally.add(renamed=1)

    def _take(self, key: KeyPath, found: Observation, settled: set[KeyPath]) -> None:
        """⚠ Two tables of one id, as when one file was registered twice, are no rename: the one that is known stays."""
        at, newest = self._state.destination.key(key), found.steps[-1]
        there = self._state.held.get(at)
        wanted = self._state.wanted(key, found, newest)
        if there is not None and not is_same_content(there, wanted):
            self._state.commit(
                [Delete(at, expected=there.content)], Seen(version=newest.version, message=f"Observed drop of {path_text(at)}")
            )
            self._state.forget(at)
            there = None
        came_from = self._state.places.get(wanted.content_id) if there is None else None
        if came_from is not None and came_from not in settled:
            self._move(came_from, at, newest)
            there = self._state.held[at]
        steps, gap = new_steps(there, found, is_first_poll=self._position.record.polls == 0)
        if not steps:
            self._state.tally.add(unchanged=1)
        for step in steps:
            self._step(at, key, found, step, gap)
            gap = ""
        settled.add(at)
        self._state.tags[key] = (found.tag, version_of(self._state.held[at].value))

    def _step(self, at: KeyPath, key: KeyPath, found: Observation, step: Step, gap: str) -> None:
        held = self._state.held
        wanted, there = self._state.wanted(key, found, step), held.get(at)
        operations = plan_bridge(held, {at: wanted}, ()).then if there is None else plan_step(at, there, wanted.value)
        verb = "creation" if there is None else "update"
        seen = Seen(version=step.version, time=step.time, gap=gap, message=f"Observed {verb} of {path_text(at)}")
        self._state.commit(operations, seen)
        held[at] = Held(wanted.content_id if there is None else there.content_id, wanted.type, wanted.value)
        self._state.places.setdefault(held[at].content_id, at)
        self._state.tally.add(gaps=1 if gap else 0)

    def _drop_tables(self, listed: set[KeyPath]) -> None:
        for key, there in sorted(self._state.held.items()):
            if key in listed or not self._state.is_table(key, there) or not self._state.covers(key):
                continue
            self._state.keep_going()
            self._end_turn()
            with self._state.counted(self._state.destination.source_key(key)):
                self._drop(key, there)

    def _drop(self, key: KeyPath, there: Held) -> None:
        if not self._state.is_gone(key, there):
            return
        self._state.commit(
            [Delete(key, expected=there.content)], Seen(version="", message=f"Observed drop of {path_text(key)}")
        )
        self._state.forget(key)

    def _drop_namespaces(self, listed: set[KeyPath]) -> None:
        """Children first. One that still holds a table, because that could not be read, stays until the next time."""
        depth = len(self._state.destination.path)
        held = [key for key, one in self._state.held.items() if one.type == NAMESPACE.name and len(key) > depth]
        gone = [key for key in held if key not in listed and self._state.covers(key)]
        for key in sorted(gone, key=len, reverse=True):
            if not any(len(other) > len(key) and other[: len(key)] == key for other in self._state.held):
                with self._state.counted(self._state.destination.source_key(key)):
                    self._state.commit([Delete(key)], Seen(version="", message=f"Observed drop of namespace {path_text(key)}"))
                self._state.held.pop(key, None)
