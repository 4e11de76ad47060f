"""Follows a source without a log: lists it, observes each table, and commits what is new.

⚠ The content at the destination is the position: a version is committed on the condition that the previous one stands there.
So none is committed twice, and no older one follows a newer one. Versions between two polls are taken from what the source
remembers of them; where it does not reach back, the commit says so in `headwater.observed.gap`.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import msgspec

from headwater.persistence.store import RealmKernel
from headwater.producer.commits.operations import CatalogOperation, Delete, Rename
from headwater.producer.connectors.bridge_plan import Held, namespace_of, plan_bridge, plan_step
from headwater.producer.connectors.connector_records import Connector
from headwater.producer.connectors.destination import DestinationBranch, Seen
from headwater.producer.connectors.log_bridge import CheckContent, KeepGoing
from headwater.producer.connectors.reconcile_jobs import Tally
from headwater.producer.connectors.source_positions import SourcePosition
from headwater.producer.connectors.source_spi import Missing, Observation, Same, Source, SourceContent, Step
from headwater.producer.content.content_types import NAMESPACE
from headwater.schemas.change import KeyPath
from headwater.schemas.errors import HeadwaterError, MaintenanceRefused, NotFound

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

    def run(self, *, full_rescan: bool = False) -> None:
        if full_rescan:
            self._tags.clear()
        namespaces = {
            self._destination.key(one.key): namespace_of(one.value["properties"]) for one in self._source.namespaces()
        }
        listed = [key for namespace in namespaces for key in self._list(self._destination.source_key(namespace))]
        self._held = self._destination.everything(self._destination.log.head())
        self._write_namespaces(namespaces)
        observed = {key: found for key in listed if (found := self._observe(key)) is not None}
        self._rename(observed, listed)
        for key, found in observed.items():
            with self._counted(key):
                self._take(key, found)
        self._drop_tables({self._destination.key(key) for key in listed})
        self._drop_namespaces(set(namespaces))
        self._position.move(msgspec.structs.replace(self._position.record, polls=self._position.record.polls + 1))

    # ── reading ─────────────────────────────────────────────────────────────────────────────────────────────

    def _list(self, namespace: KeyPath) -> Sequence[KeyPath]:
        try:
            return [*self._source.tables(namespace)]
        except NotFound:  # dropped since it was listed; its tables are confirmed one by one before they are dropped here
            return []

    def _observe(self, key: KeyPath) -> Observation | None:
        """None for what is unchanged, gone since it was listed, or cannot be read; the last is counted."""
        there = self._held.get(self._destination.key(key))
        tag, version = self._tags.get(key, ("", ""))
        seen = tag if there is not None and version == _version(there) else ""
        self._tally.add(observed=1)
        try:
            found = self._source.observe(key, seen)
            if isinstance(found, Observation):
                for step in found.steps:
                    self._check_content(SourceContent(key=key, id=found.id, type=found.type, value=step.value))
                return found
        except MaintenanceRefused:
            raise
        except HeadwaterError as error:
            self._tally.fail(key, error.code, str(error))
            return None
        if isinstance(found, Same):
            self._tally.add(unchanged=1)
        return None

    # ── writing ─────────────────────────────────────────────────────────────────────────────────────────────

    def _write_namespaces(self, namespaces: dict[KeyPath, Held]) -> None:
        wanted = dict(namespaces)
        if self._destination.path and self._destination.path not in self._held:
            wanted[self._destination.path] = namespace_of({})
        plan = plan_bridge(self._held, wanted, ())
        if plan.then:
            self._commit(plan.then, Seen(version="namespaces", message="Observed namespaces"))
            self._held |= wanted

    def _rename(self, observed: dict[KeyPath, Observation], listed: Sequence[KeyPath]) -> None:
        """A table that is new at one key and not listed any more at another is the same one if its id is."""
        still = {self._destination.key(key) for key in listed}
        missing = {
            one.content_id: key
            for key, one in self._held.items()
            if key not in still and len(key) > len(self._destination.path) and one.type != NAMESPACE.name
        }
        for key, found in observed.items():
            with self._counted(key):
                self._rename_from(missing, key, found)

    def _rename_from(self, missing: Mapping[str, KeyPath], key: KeyPath, found: Observation) -> None:
        to = self._destination.key(key)
        content_id = self._wanted(key, found, found.steps[-1]).content_id
        came_from = missing.get(content_id) if content_id and to not in self._held else None
        if came_from is not None:
            self._move(came_from, to, found.steps[-1])

    def _move(self, came_from: KeyPath, to: KeyPath, step: Step) -> None:
        there = self._held[came_from]
        operation = Rename(came_from, to, expected=there.content)
        message = f"Observed rename of {'.'.join(came_from)} to {'.'.join(to)}"
        self._commit([operation], Seen(version=step.version, time=step.time, message=message))
        self._held[to] = self._held.pop(came_from)
        self._tally.add(renamed=1)

    def _take(self, key: KeyPath, found: Observation) -> None:
        at, newest = self._destination.key(key), found.steps[-1]
        there = self._held.get(at)
        wanted = self._wanted(key, found, newest)
        if there is not None and (there.type != wanted.type or (wanted.content_id and there.content_id != wanted.content_id)):
            self._commit(
                [Delete(at, expected=there.content)], Seen(version=newest.version, message=f"Observed drop of {_text(at)}")
            )
            self._tally.add(dropped=1)
            del self._held[at]
            there = None
        steps, gap = self._new_steps(there, found)
        if not steps:
            self._tally.add(unchanged=1)
        for step in steps:
            self._step(at, key, found, step, gap)
        self._tags[key] = (found.tag, _version(self._held[at]))

    def _new_steps(self, there: Held | None, found: Observation) -> tuple[Sequence[Step], str]:
        """The versions to commit, oldest first, and why some are missing before the first of them."""
        if there is None:
            is_first_poll = self._position.record.polls == 0
            return (found.steps[-1:] if is_first_poll else found.steps), ""
        versions = [step.version for step in found.steps]
        if _version(there) in versions:
            return found.steps[versions.index(_version(there)) + 1 :], ""
        return found.steps[-1:], "the source does not say which versions were between"

    def _step(self, at: KeyPath, key: KeyPath, found: Observation, step: Step, gap: str) -> None:
        wanted, there = self._wanted(key, found, step), self._held.get(at)
        operations = plan_bridge(self._held, {at: wanted}, ()).then if there is None else plan_step(at, there, wanted.value)
        verb = "creation" if there is None else "update"
        seen = Seen(version=step.version, time=step.time, gap=gap, message=f"Observed {verb} of {_text(at)}")
        self._commit(operations, seen)
        self._held[at] = Held(wanted.content_id if there is None else there.content_id, wanted.type, wanted.value)
        self._tally.add(gaps=1 if gap else 0)

    def _drop_tables(self, listed: set[KeyPath]) -> None:
        """⚠ Missing from a complete listing is not enough: the source must say that it is not there."""
        for key, there in sorted(self._held.items()):
            if key in listed or len(key) <= len(self._destination.path) or there.type == NAMESPACE.name:
                continue
            with self._counted(self._destination.source_key(key)):
                self._drop(key, there)

    def _drop(self, key: KeyPath, there: Held) -> None:
        if not isinstance(self._source.observe(self._destination.source_key(key), ""), Missing):
            return
        self._commit([Delete(key, expected=there.content)], Seen(version="", message=f"Observed drop of {_text(key)}"))
        del self._held[key]
        self._tally.add(dropped=1)

    def _drop_namespaces(self, listed: set[KeyPath]) -> None:
        """Children first. One that still holds a table, because that could not be read, stays until the next time."""
        depth = len(self._destination.path)
        gone = [key for key, one in self._held.items() if one.type == NAMESPACE.name and len(key) > depth and key not in listed]
        for key in sorted(gone, key=len, reverse=True):
            if not any(len(other) > len(key) and other[: len(key)] == key for other in self._held):
                with self._counted(self._destination.source_key(key)):
                    self._commit([Delete(key)], Seen(version="", message=f"Observed drop of namespace {_text(key)}"))
                self._held.pop(key, None)

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


def _version(there: Held) -> str:
    """Under which a source names what stands at the destination."""
    value = there.value
    if "metadata_location" in value:
        return str(value["metadata_location"])
    history = value.get("metadata_location_history") or [""]
    return str(history[0])


def _text(key: KeyPath) -> str:
    return ".".join(key)
