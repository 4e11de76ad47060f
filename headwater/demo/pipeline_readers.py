"""The readers of the pipeline: who has seen which commit of a branch, and when.

A poller, an SSE reader and a Kafka group receive Changes; the live view and the retained set are asked for their positions.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import msgspec

from headwater.consumers.clients.feed_http import FeedTarget
from headwater.consumers.clients.http_poll import HttpPoll
from headwater.consumers.clients.reader import Reader
from headwater.consumers.clients.sse import HttpStream
from headwater.schemas.errors import HeadwaterError
from headwater.streaming.retained.retained_store import RetainedStore
from headwater.up.system import System

if TYPE_CHECKING:
    from headwater.consumers.kafka.kafka_source import KafkaSource

READERS = ("poll", "SSE", "Kafka group", "live view", "retained set")
LOOK_SECONDS = 0.05
PROBE_SECONDS = 5.0
AGAIN_SECONDS = 0.5
WAIT_SECONDS = 2.0
"""How long a request waits for new Changes."""
STOP_SECONDS = 10.0


class Sighting(msgspec.Struct, frozen=True):
    seq: int
    times: int
    """How often the Change arrived: more than once is a broken promise."""
    at: float
    """By the monotonic clock."""


class PipelineReaders:
    """Follows one branch with every reader, from the start on."""

    def __init__(self, system: System, instance: str, pointer: str, *, after_seq: int, group: str) -> None:
        self._system = system
        self._instance = instance
        self._pointer = pointer
        self._after_seq = after_seq
        self._group = group
        self._lock = threading.Lock()
        self._seen: dict[str, dict[int, Sighting]] = {name: {} for name in READERS}
        self._stopping = threading.Event()
        self._client = httpx.Client()
        self._threads: list[threading.Thread] = []
        target = FeedTarget(server=system.server, pointers=(pointer,))
        self._poll = Reader(HttpPoll(self._client, target, wait_seconds=WAIT_SECONDS), str(after_seq))
        self._stream = Reader(HttpStream(self._client, target, heartbeat_seconds=WAIT_SECONDS), str(after_seq))

    def start(self) -> None:
        works: list[Callable[[], None]] = [
            lambda: self._follow("poll", self._poll),
            lambda: self._follow("SSE", self._stream),
            self._follow_kafka,
            lambda: self._ask("live view", self._view_seq),
            lambda: self._ask("retained set", self._retained_seq),
        ]
        self._threads = [threading.Thread(target=self._until_stopped, args=(work,), daemon=True) for work in works]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stopping.set()
        with contextlib.suppress(Exception):  # whatever waits in it ends with it
            self._client.close()
        for thread in self._threads:
            thread.join(STOP_SECONDS)

    def arrivals(self, seq: int) -> dict[str, float]:
        """Reader → when it had the entry, of those that have it."""
        with self._lock:
            return {name: seen[seq].at for name, seen in self._seen.items() if seq in seen}

    def missing(self, first: int, last: int) -> dict[str, list[int]]:
        """Reader → entries of that range that it lacks or had twice."""
        with self._lock:
            wrong = {
                name: [seq for seq in range(first, last + 1) if seq not in seen or seen[seq].times != 1]
                for name, seen in self._seen.items()
            }
        return {name: seqs for name, seqs in wrong.items() if seqs}

    def _until_stopped(self, work: Callable[[], None]) -> None:
        while not self._stopping.is_set():
            with contextlib.suppress(HeadwaterError, OSError, httpx.HTTPError, RuntimeError, ValueError):
                work()  # a server that is unavailable comes back
            self._stopping.wait(AGAIN_SECONDS)

    def _saw(self, reader: str, seq: int) -> None:
        now = time.monotonic()
        with self._lock:
            before = self._seen[reader].get(seq)
            self._seen[reader][seq] = Sighting(seq, 1, now) if before is None else Sighting(seq, before.times + 1, before.at)

    def _follow(self, name: str, reader: Reader) -> None:
        for change in reader.changes(follow=True):
            self._saw(name, change.seq)
            if self._stopping.is_set():
                return

    def _follow_kafka(self) -> None:
        from headwater.consumers.kafka.kafka_source import KafkaSource

        source = KafkaSource(bootstrap=self._system.kafka, realm="default", pointers=(self._pointer,), group=self._group)
        asyncio.run(self._kafka_until_stopped(source))

    async def _kafka_until_stopped(self, source: KafkaSource) -> None:
        """A group without new records would wait forever."""
        reading = asyncio.ensure_future(self._kafka(source))
        while not self._stopping.is_set() and not reading.done():
            await asyncio.wait([reading], timeout=LOOK_SECONDS)
        reading.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await reading

    async def _kafka(self, source: KafkaSource) -> None:
        from headwater.consumers.kafka.kafka_reader import KafkaReader
        from headwater.producer.publisher.kafka.schema_registry import SchemaRegistry

        async with KafkaReader(source, schema_by_id=SchemaRegistry(self._system.registry).schema) as reader:
            async for change in reader.changes():
                self._saw("Kafka group", change.seq)
                await reader.acknowledge()

    def _ask(self, name: str, newest: Callable[[], int]) -> None:
        """These report a position: everything up to it has arrived. ⚠ What was seen before a fault is not seen again."""
        with self._lock:
            known = max(self._seen[name], default=self._after_seq)
        while not self._stopping.wait(LOOK_SECONDS):
            reached = newest()
            for seq in range(known + 1, reached + 1):
                self._saw(name, seq)
            known = max(known, reached)

    def _view_seq(self) -> int:
        with urllib.request.urlopen(f"{self._system.views}/positions/", timeout=PROBE_SECONDS) as answer:  # noqa: S310
            found = msgspec.json.decode(answer.read(), type=dict[str, int])
        return found.get(self._pointer, 0)

    def _retained_seq(self) -> int:
        folder = Path(self._system.settings["HEADWATER_MAINTENANCE_DIR"])
        state = RetainedStore(folder, self._instance).load()
        at = None if state is None else state.positions.get(self._pointer)
        return 0 if at is None else at.seq


@contextlib.contextmanager
def reading(
    system: System, instance: str, pointer: str, *, after_seq: int, group: str = "pipeline"
) -> Iterator[PipelineReaders]:
    readers = PipelineReaders(system, instance, pointer, after_seq=after_seq, group=group)
    readers.start()
    try:
        yield readers
    finally:
        readers.stop()
