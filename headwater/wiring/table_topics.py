"""Keeps the tables topic of every published realm, and restarts a writer that fails."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence

from headwater.consumers.views.store_lookup import StoreLookup
from headwater.consumers.views.table_topic import TableTopicWriter
from headwater.persistence.realms.realm_states import RealmStatus
from headwater.persistence.realms.realms import Realms
from headwater.persistence.store import Store
from headwater.producer.publisher.assignment.generations import Generations
from headwater.producer.publisher.kafka.schema_registry import SchemaRegistry
from headwater.producer.publisher.options import PublisherOptions
from headwater.schemas.errors import HeadwaterError, ShardLost

LOOK_SECONDS = 2.0
RETRY_SECONDS = 5.0
TAKEN_OVER_SECONDS = 60.0
"""Delay before a keeper that was taken over tries again: otherwise two would fence each other forever."""

_log = logging.getLogger(__name__)


class TableTopicWriters:
    def __init__(self, store: Store, options: PublisherOptions, realms: Sequence[str] = ()) -> None:
        self._store = store
        self._options = options
        self._only = frozenset(realms)
        self._generations = Generations(store.backend, store.clock)
        self._registry = SchemaRegistry(options.registry_url) if options.registry_url else None
        self._running: dict[str, tuple[TableTopicWriter, threading.Thread]] = {}
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="table-keepers", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._closing.set()
        self._thread.join()

    def keep_once(self) -> None:
        """Bring every topic to its current end."""
        for realm in self._published():
            self._keeper(realm).run_once()

    def _run(self) -> None:
        while not self._closing.wait(LOOK_SECONDS):
            try:
                self._match(self._published())
            except HeadwaterError as error:
                _log.warning("realms were not looked for: %s", error)
        self._match([])

    def _match(self, wanted: Sequence[str]) -> None:
        for realm in [realm for realm in self._running if realm not in wanted]:
            keeper, thread = self._running.pop(realm)
            keeper.stop()
            thread.join()
        for realm in wanted:
            if realm not in self._running:
                keeper = self._keeper(realm)
                thread = threading.Thread(target=self._keep, args=(realm, keeper), name=f"tables-{realm}", daemon=True)
                self._running[realm] = (keeper, thread)
                thread.start()

    def _keep(self, realm: str, keeper: TableTopicWriter) -> None:
        """Runs until it is stopped. A keeper that fails is discarded: the next one reads all it knows from the topic."""
        while not keeper.is_stopped:
            try:
                keeper.run()
            except HeadwaterError as error:
                _log.warning("the tables topic of %s is not kept for a while: %s", realm, error)
                keeper.wait(TAKEN_OVER_SECONDS if isinstance(error, ShardLost) else RETRY_SECONDS)
                keeper.forget()

    def _published(self) -> list[str]:
        known = {generation.realm for generation in self._generations.list()}
        active = [realm for realm in Realms(self._store).all() if realm.status is RealmStatus.ACTIVE]
        return [realm.instance for realm in active if realm.instance in known and (not self._only or realm.name in self._only)]

    def _keeper(self, realm: str) -> TableTopicWriter:
        return TableTopicWriter(
            self._options.bootstrap,
            realm,
            StoreLookup(self._store.kernel(realm)),
            client=self._options.client,
            schema_by_id=None if self._registry is None else self._registry.schema,
            begins=lambda: self._generations.begins(realm),
        )
