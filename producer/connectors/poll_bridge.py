"""Follows a source without a log: lists it, observes each table, and commits what is new.

⚠ The content at the destination is the position: a version is committed on the condition that the previous one stands there.
So none is committed twice, and no older one follows a newer one. Versions between two polls are taken from what the source
remembers of them; where it does not reach back, the commit says so in `headwater.observed.gap`.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence, Set
from contextlib import contextmanager

import msgspec

from headwater.persistence.store import RealmKernel
from headwater.producer.commits.operations import CatalogOperation, Delete, Rename
from headwater.producer.connectors.bridge_plan import (
    Held,
    ancestors,
    is_same_content,
    namespace_of,
    plan_bridge,
    plan_step,
    version_of,
)
from headwater.producer.connectors.connector_records import Connector
from headwater.producer.connectors.destination import DestinationBranch, Seen
from headwater.producer.connectors.log_bridge import CheckContent, KeepGoing
from headwater.producer.connectors.reconcile_jobs import Tally
from headwater.producer.connectors.source_positions import SourcePosition
from headwater.producer.connectors.source_spi import Missing, Observation, Same, Source, SourceContent, Step
from headwater.producer.content.content_types import NAMESPACE
from headwater.schemas.change import KeyPath
from headwater.schemas.errors import Conflict, HeadwaterError, MaintenanceRefused, MaintenanceStopped, NotFound, TableNotFound

SeenTags = dict[KeyPath, tuple[str, str]]
"""By key: the tag that the source gave, and the version that it was for. A cache: it may be empty at any time."""


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
        tags: SeenTags | None = None,
    ) -> None:
        self._source = source
        self._position = position
        self._tally = tally
        self._check_content = check_content
        self._keep_going = keep_going
        self._destination = DestinationBranch(kernel, connector)
        self._tags: SeenTags = {} if tags is None else tags
        self._held: dict[KeyPath, Held] = {}
        self._places: dict[str, KeyPath] = {}
        """Of the tables among them, by content id."""

    def run(self, *, full_rescan: bool = False) -> None:
        if full_rescan:
            self._tags.clear()
        namespaces = {
            self._destination.key(one.key): namespace_of(one.value["properties"]) for one in self._source.namespaces()
        }
        listed = sorted({key for namespace in namespaces for key in self._list(self._destination.source_key(namespace))})
        self._held = self._destination.everything(self._destination.log.head())
        self._places = {one.content_id: key for key, one in self._held.items() if self._is_table(key, one)}
        if full_rescan:
            self._replace(namespaces, listed)
        else:
            self._write_namespaces(namespaces)
            self._follow(listed)
            self._drop_tables({self._destination.key(key) for key in listed})
            self._drop_namespaces(set(namespaces))
        self._position.move(msgspec.structs.replace(self._position.record, position="", polls=self._position.record.polls + 1))

    def _follow(self, listed: Sequence[KeyPath]) -> None:
        """Each table as it is read, but for those that changed places with others: they wait until all are known. A run that is
        cut short leaves in the position behind which table the next one goes on."""
        after, moved = self._position.record.listed_to, dict[KeyPath, Observation]()
        still, settled = {self._destination.key(key) for key in listed}, set[KeyPath]()
        done = after
        try:
            for key in listed:
                at = self._destination.key(key)
                if key <= after:
                    settled.add(at)
                    continue
                self._keep_going()
                found = self._observe(key)
                if isinstance(found, Observation):
                    with self._counted(key):
                        if self._is_elsewhere(at, key, found, still, settled):
                            moved[key] = found
                        else:
                            self._take(key, found, settled)
                elif not isinstance(found, Missing):
                    settled.add(at)
                done = key if not moved else done
            self._take_moved(moved, settled)
        except MaintenanceStopped:
            self._position.move(self._position.record.with_listed_to(done))
            raise

    def _take_moved(self, moved: dict[KeyPath, Observation], settled: set[KeyPath]) -> None:
        """Renames in an order in which each finds its name free. A ring of names is opened at one table, which is made anew."""
        while moved:
            free = (key for key in moved if self._destination.key(key) not in self._held)
            key = next(free, None) or next(iter(moved))
            with self._counted(key):
                self._take(key, moved[key], settled)
            del moved[key]

    def observe_one(self, key: KeyPath) -> None:
        """One table or view of the source, in this moment. What is wrong with it is an error, and not counted."""
        at, head = self._destination.key(key), self._destination.log.head()
        self._held = self._destination.at(head, [at])
        found = self._source.observe(key, "")
        if not isinstance(found, Observation):
            raise TableNotFound(f"the source has no table {_text(key)[:200]}.", field="upstream", remedy="List its tables.")
        for step in found.steps:
            self._check_content(SourceContent(key=key, id=found.id, type=found.type, value=step.value))
        wanted = self._wanted(key, found, found.steps[-1]).content_id
        is_new = at not in self._held
        if is_new and wanted and wanted in {one.content_id for one in self._destination.everything(head).values()}:
            raise Conflict(
                f"{_text(key)[:200]} was renamed at the source.", field="upstream", remedy="Reconcile the connector."
            )
        self._take(key, found, set())

    # ── reading ─────────────────────────────────────────────────────────────────────────────────────────────

    def _list(self, namespace: KeyPath) -> Sequence[KeyPath]:
        try:
            return [*self._source.tables(namespace)]
        except NotFound:  # dropped since it was listed; its tables are confirmed one by one before they are dropped here
            return []

    def _observe(self, key: KeyPath) -> Observation | Same | Missing | None:
        """None for what cannot be read, which is counted."""
        there = self._held.get(self._destination.key(key))
        tag, version = self._tags.get(key, ("", ""))
        seen = tag if there is not None and version == version_of(there.value) else ""
        self._tally.add(observed=1)
        try:
            found = self._source.observe(key, seen)
            if isinstance(found, Observation):
                for step in found.steps:
                    self._check_content(SourceContent(key=key, id=found.id, type=found.type, value=step.value))
        except MaintenanceRefused:
            raise
        except HeadwaterError as error:
            self._tally.fail(key, error.code, str(error))
            return None
        if isinstance(found, Same):
            self._tally.add(unchanged=1)
        return found

    # ── writing ─────────────────────────────────────────────────────────────────────────────────────────────

    def _write_namespaces(self, namespaces: dict[KeyPath, Held]) -> None:
        wanted = dict(namespaces)
        if self._destination.path and self._destination.path not in self._held:
            wanted[self._destination.path] = namespace_of({})
        plan = plan_bridge(self._held, wanted, ())
        if plan.then:
            self._commit(plan.then, Seen(version="namespaces", message="Observed namespaces"))
            self._held |= wanted

    def _is_elsewhere(self, at: KeyPath, key: KeyPath, found: Observation, still: Set[KeyPath], settled: Set[KeyPath]) -> bool:
        """Whether what stands at the key, or what belongs there, may yet turn out to have another name."""
        wanted, there = self._wanted(key, found, found.steps[-1]), self._held.get(at)
        if there is not None:
            return not is_same_content(there, wanted)
        place = self._places.get(wanted.content_id)
        return place in still and place not in settled

    def _move(self, came_from: KeyPath, to: KeyPath, step: Step) -> None:
        there = self._held[came_from]
        operation = Rename(came_from, to, expected=there.content)
        message = f"Observed rename of {_text(came_from)} to {_text(to)}"
        self._commit([operation], Seen(version=version_of(there.value), time=step.time, message=message))
        self._held[to] = self._held.pop(came_from)
        self._places[there.content_id] = to
        self._tally.add(renamed=1)

    def _take(self, key: KeyPath, found: Observation, settled: set[KeyPath]) -> None:
        """⚠ Two tables of one id, as when one file was registered twice, are no rename: the one that is known stays."""
        at, newest = self._destination.key(key), found.steps[-1]
        there = self._held.get(at)
        wanted = self._wanted(key, found, newest)
        if there is not None and not is_same_content(there, wanted):
            self._commit(
                [Delete(at, expected=there.content)], Seen(version=newest.version, message=f"Observed drop of {_text(at)}")
            )
            self._forget(at)
            there = None
        came_from = self._places.get(wanted.content_id) if there is None else None
        if came_from is not None and came_from not in settled:
            self._move(came_from, at, newest)
            there = self._held[at]
        steps, gap = self._new_steps(there, found)
        if not steps:
            self._tally.add(unchanged=1)
        for step in steps:
            self._step(at, key, found, step, gap)
            gap = ""
        settled.add(at)
        self._tags[key] = (found.tag, version_of(self._held[at].value))

    def _new_steps(self, there: Held | None, found: Observation) -> tuple[Sequence[Step], str]:
        """The versions to commit, oldest first, and why some are missing before the first of them."""
        if there is None:
            is_first_poll = self._position.record.polls == 0
            gap = "" if is_first_poll or found.is_whole else "the source does not say how the table began"
            return (found.steps[-1:] if is_first_poll else found.steps), gap
        versions = [step.version for step in found.steps]
        if version_of(there.value) in versions:
            return found.steps[versions.index(version_of(there.value)) + 1 :], ""
        return found.steps[-1:], "the source does not say which versions were between"

    def _step(self, at: KeyPath, key: KeyPath, found: Observation, step: Step, gap: str) -> None:
        wanted, there = self._wanted(key, found, step), self._held.get(at)
        operations = plan_bridge(self._held, {at: wanted}, ()).then if there is None else plan_step(at, there, wanted.value)
        verb = "creation" if there is None else "update"
        seen = Seen(version=step.version, time=step.time, gap=gap, message=f"Observed {verb} of {_text(at)}")
        self._commit(operations, seen)
        self._held[at] = Held(wanted.content_id if there is None else there.content_id, wanted.type, wanted.value)
        self._places.setdefault(self._held[at].content_id, at)
        self._tally.add(gaps=1 if gap else 0)

    def _drop_tables(self, listed: set[KeyPath]) -> None:
        """⚠ Missing from a complete listing is not enough: the source must say that it is not there."""
        for key, there in sorted(self._held.items()):
            if key in listed or not self._is_table(key, there):
                continue
            self._keep_going()
            with self._counted(self._destination.source_key(key)):
                self._drop(key, there)

    def _drop(self, key: KeyPath, there: Held) -> None:
        if not self._is_missing(key):
            return
        self._commit([Delete(key, expected=there.content)], Seen(version="", message=f"Observed drop of {_text(key)}"))
        self._forget(key)

    def _forget(self, key: KeyPath) -> None:
        there = self._held.pop(key)
        if self._places.get(there.content_id) == key:
            del self._places[there.content_id]
        self._tally.add(dropped=1)

    def _is_missing(self, key: KeyPath) -> bool:
        return isinstance(self._source.observe(self._destination.source_key(key), ""), Missing)

    def _is_table(self, key: KeyPath, one: Held) -> bool:
        return len(key) > len(self._destination.path) and one.type != NAMESPACE.name

    def _drop_namespaces(self, listed: set[KeyPath]) -> None:
        """Children first. One that still holds a table, because that could not be read, stays until the next time."""
        depth = len(self._destination.path)
        gone = [key for key, one in self._held.items() if one.type == NAMESPACE.name and len(key) > depth and key not in listed]
        for key in sorted(gone, key=len, reverse=True):
            if not any(len(other) > len(key) and other[: len(key)] == key for other in self._held):
                with self._counted(self._destination.source_key(key)):
                    self._commit([Delete(key)], Seen(version="", message=f"Observed drop of namespace {_text(key)}"))
                self._held.pop(key, None)

    def _replace(self, namespaces: dict[KeyPath, Held], listed: Sequence[KeyPath]) -> None:
        """The newest state of all tables in one commit. A table that cannot be read stays as it is."""
        wanted, kept, there_now = dict(namespaces), set[KeyPath](), set(listed)
        if self._destination.path:
            wanted.setdefault(self._destination.path, self._held.get(self._destination.path) or namespace_of({}))
        for key in listed:
            self._keep_going()
            found = self._observe(key)
            with self._counted(key):
                if isinstance(found, Observation):
                    wanted[self._destination.key(key)] = self._wanted(key, found, found.steps[-1])
        for key, there in self._held.items():
            if key not in wanted and self._is_table(key, there):
                kept.add(key)
                if self._destination.source_key(key) not in there_now:
                    with self._counted(self._destination.source_key(key)):
                        kept -= {key} if self._is_missing(key) else set()
        stays = kept | {above for key in kept for above in ancestors(key)}
        gone = [key for key in self._held if key not in stays and len(key) > len(self._destination.path)]
        plan = plan_bridge(self._held, wanted, gone)
        gap = "the state was compared as a whole"
        for operations in (plan.first, plan.then):
            if operations:
                self._commit(operations, Seen(version="", gap=gap, message="Full rescan"))
                self._tally.add(gaps=1)
        self._tally.add(renamed=plan.renamed, dropped=plan.dropped)

    # ── steps ───────────────────────────────────────────────────────────────────────────────────────────────

    def _wanted(self, key: KeyPath, found: Observation, step: Step) -> Held:
        return self._destination.wanted(SourceContent(key=key, id=found.id, type=found.type, value=step.value))

    def _commit(self, operations: Sequence[CatalogOperation], seen: Seen) -> None:
        self._keep_going()
        self._destination.commit(operations, seen, uuid.uuid4().hex)
        self._tally.add(committed=1)

    @contextmanager
    def _counted(self, key: KeyPath) -> Iterator[None]:
        """A table that cannot be read or committed is counted; the others continue."""
        try:
            yield
        except MaintenanceRefused:  # the lease is lost, or the job is cancelled
            raise
        except HeadwaterError as error:
            self._tally.fail(key, error.code, str(error))


def _text(key: KeyPath) -> str:
    return ".".join(key)
