"""What a run of a polled source works on: what the destination holds, what the source shows, and what the scope takes in."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from headwater.persistence.store import RealmKernel
from headwater.producer.commits.operations import CatalogOperation
from headwater.producer.connectors.bounded_listing import ListingBounds
from headwater.producer.connectors.bridge_plan import Held, is_same_content, namespace_of, version_of
from headwater.producer.connectors.connector_records import Connector
from headwater.producer.connectors.destination import DestinationBranch, Seen
from headwater.producer.connectors.log_bridge import CheckContent, KeepGoing
from headwater.producer.connectors.polled_names import (
    EVERYTHING,
    PolledNames,
    Scope,
    names_beyond,
    path_text,
    read_names,
    require_known,
)
from headwater.producer.connectors.reconcile_jobs import Tally
from headwater.producer.connectors.source_spi import Missing, Observation, Same, Source, SourceContent, Step
from headwater.producer.content.content_types import NAMESPACE
from headwater.schemas.change import KeyPath
from headwater.schemas.errors import Conflict, HeadwaterError, MaintenanceRefused

SeenTags = dict[KeyPath, tuple[str, str]]
"""By key: the tag that the source gave, and the version that it was for. A cache: it may be empty at any time."""


class PolledState:
    def __init__(
        self,
        kernel: RealmKernel,
        connector: Connector,
        source: Source,
        tally: Tally,
        *,
        check_content: CheckContent,
        keep_going: KeepGoing,
        tags: SeenTags | None = None,
    ) -> None:
        self.source = source
        self.tally = tally
        self.keep_going = keep_going
        self.destination = DestinationBranch(kernel, connector)
        self.tags: SeenTags = {} if tags is None else tags
        self.held: dict[KeyPath, Held] = {}
        """By key of the destination."""
        self.places: dict[str, KeyPath] = {}
        """Of the tables among them, by content id."""
        self.scope = EVERYTHING
        self._check_content = check_content
        self._ids_beyond: dict[KeyPath, str] | None = None

    def load(self, scope: Scope) -> PolledNames:
        self.scope = scope
        self.held = self.destination.everything(self.destination.log.head())
        self.places = {one.content_id: key for key, one in self.held.items() if self.is_table(key, one)}
        names = read_names(self.source, scope, self._is_held_table, ListingBounds(self.keep_going))
        require_known(scope, names, lambda path: self.destination.key(path) in self.held)
        return names

    # ── reading ─────────────────────────────────────────────────────────────────────────────────────────────

    def observe(self, key: KeyPath) -> Observation | Same | Missing | None:
        """None for what cannot be read, which is counted."""
        self.tally.add(observed=1)
        try:
            found = self.source.observe(key, self._seen(key))
            if isinstance(found, Observation):
                self.check(key, found)
        except MaintenanceRefused:
            raise
        except HeadwaterError as error:
            self.tally.fail(key, error.code, str(error))
            return None
        if isinstance(found, Same):
            self.tally.add(unchanged=1)
        return found

    def check(self, key: KeyPath, found: Observation) -> None:
        for step in found.steps:
            self._check_content(SourceContent(key=key, id=found.id, type=found.type, value=step.value))

    def _seen(self, key: KeyPath) -> str:
        there = self.held.get(self.destination.key(key))
        tag, version = self.tags.get(key, ("", ""))
        return tag if there is not None and version == version_of(there.value) else ""

    def _beyond(self) -> dict[KeyPath, str]:
        """Content ids of what the source has beyond the scope, by key. Read once, and only if a table in the scope seems to be
        gone or new: it may have been renamed."""
        if self._ids_beyond is None:
            self._ids_beyond = {}
            for key in names_beyond(self.source, self.scope, ListingBounds(self.keep_going)):
                self.keep_going()
                at = self.destination.key(key)
                with suppress(HeadwaterError):
                    found = self.source.observe(key, self._seen(key))
                    if isinstance(found, Observation):
                        self._ids_beyond[at] = self.wanted(key, found, found.steps[-1]).content_id
                    elif isinstance(found, Same):
                        self._ids_beyond[at] = self.held[at].content_id
        return self._ids_beyond

    def require_inside(self, at: KeyPath, wanted: Held, settled: set[KeyPath]) -> None:
        """⚠ A rename over the scope's border would be a drop and another table here: it takes a wider scope."""
        there, place = self.held.get(at), self.places.get(wanted.content_id)
        if self.scope.is_everything or (there is not None and is_same_content(there, wanted)):
            return
        if place is not None and not self.scope.covers(self.destination.source_key(place)):
            if self._beyond().get(place) != wanted.content_id:
                raise _across(place, at)
            settled.add(place)  # two names of one table, of which that one stays
        if there is not None:
            self.require_not_beyond(at, there)

    def require_not_beyond(self, at: KeyPath, there: Held) -> None:
        if not self.scope.is_everything:
            for place, content_id in self._beyond().items():
                if content_id == there.content_id:
                    raise _across(at, place)

    def is_gone(self, at: KeyPath, there: Held) -> bool:
        """⚠ Missing from a complete listing is not enough: the source must say that it is not there."""
        if not isinstance(self.source.observe(self.destination.source_key(at), ""), Missing):
            return False
        self.require_not_beyond(at, there)
        return True

    def is_table(self, key: KeyPath, one: Held) -> bool:
        return len(key) > len(self.destination.path) and one.type != NAMESPACE.name

    def _is_held_table(self, path: KeyPath) -> bool:
        there = self.held.get(self.destination.key(path))
        return there is not None and there.type != NAMESPACE.name

    def covers(self, at: KeyPath) -> bool:
        return self.scope.covers(self.destination.source_key(at))

    def wanted_namespaces(self, namespaces: dict[KeyPath, Held]) -> dict[KeyPath, Held]:
        """Those above the scope only if they are missing."""
        wanted = {key: one for key, one in namespaces.items() if key not in self.held or self.covers(key)}
        if self.destination.path and self.destination.path not in self.held:
            wanted[self.destination.path] = namespace_of({})
        return wanted

    # ── writing ─────────────────────────────────────────────────────────────────────────────────────────────

    def forget(self, key: KeyPath) -> None:
        there = self.held.pop(key)
        if self.places.get(there.content_id) == key:
            del self.places[there.content_id]
        self.tally.add(dropped=1)

    def wanted(self, key: KeyPath, found: Observation, step: Step) -> Held:
        return self.destination.wanted(SourceContent(key=key, id=found.id, type=found.type, value=step.value))

    def commit(self, operations: Sequence[CatalogOperation], seen: Seen) -> None:
        self.keep_going()
        self.destination.commit(operations, seen, uuid.uuid4().hex)
        self.tally.add(committed=1)

    @contextmanager
    def counted(self, key: KeyPath) -> Iterator[None]:
        """A table that cannot be read or committed is counted; the others continue."""
        try:
            yield
        except MaintenanceRefused:  # the lease is lost, or the job is cancelled
            raise
        except HeadwaterError as error:
            self.tally.fail(key, error.code, str(error))


def _across(came_from: KeyPath, to: KeyPath) -> Conflict:
    return Conflict(
        f"{path_text(came_from)} was renamed to {path_text(to)}, and the scope has only one of them.",
        field="scope",
        remedy="Reconcile with both in the scope, or without a scope.",
    )
