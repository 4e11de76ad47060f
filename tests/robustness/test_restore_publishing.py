"""A real backup is put back under writers, publishers, a Kafka group and sweeps: what is published afterwards is the log, each
reader gets it whole or is told, and nothing that an entry refers to is gone."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path

import pytest

import headwater
from headwater.consumers.kafka.kafka_reader import KafkaReader
from headwater.consumers.kafka.kafka_source import KafkaSource
from headwater.embedded import Headwater
from headwater.producer.publisher.assignment.alarms import Alarms
from headwater.producer.publisher.assignment.generations import Generations
from headwater.schemas.change import Change
from headwater.schemas.errors import CursorGone, HeadwaterError, KafkaUnavailable
from headwater.streaming.expire.expire import expire_realms
from headwater.streaming.expire.retention import parse_retention
from headwater.streaming.reachability.retained_identifiers import Identifiers
from headwater.streaming.retained.retained_sources import WalkedSource
from headwater.streaming.runs.runs import Runs
from headwater.streaming.sweep.executors import LocalExecutor
from headwater.streaming.sweep.sweep import GRACE_SECONDS_MIN, Sweep, SweepOptions
from tests.support.fixtures.publisher_runs import instance_of, log_of, new_lake, options, publishing, put, wait_until
from tests.support.fixtures.restorable_stores import RestorableStore, restorable_store

BRANCHES = ("main", "dev")
ROUNDS = 6
RESTARTING = {"STORE_BEHIND_KAFKA", "LOG_DIVERGED"}
RUN_LEASE_SECONDS = 15.0
"""A run that was at work in the backup excludes others until this has passed."""
Log = dict[str, list[Change]]


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> RestorableStore:
    return restorable_store(request, tmp_path)


class Beside(threading.Thread):
    """Does one thing again and again on a store that it has opened for itself, whatever happens to it."""

    def __init__(self, url: str, act: Callable[[Headwater], None]) -> None:
        super().__init__(daemon=True)
        self.rounds = 0
        self.fault: BaseException | None = None
        self._url, self._act = url, act
        self._stopped = threading.Event()

    def run(self) -> None:
        try:
            with headwater.open(self._url) as engine:
                while not self._stopped.wait(0.02):
                    with contextlib.suppress(HeadwaterError):  # told, and tried again
                        self._act(engine)
                        self.rounds += 1
        except BaseException as fault:
            self.fault = fault

    def __enter__(self) -> Beside:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        self._stopped.set()
        self.join(60)
        assert not self.is_alive() and self.fault is None, self.fault

    def goes_on(self) -> Callable[[], bool]:
        wanted = self.rounds + ROUNDS
        return lambda: self.rounds >= wanted


class GroupReader(threading.Thread):
    """A member of a group that accepts what it is told to be gone. It keeps of each pointer what came since."""

    def __init__(self, source: KafkaSource) -> None:
        super().__init__(daemon=True)
        self.found: Log = {}
        self.accepted: list[str] = []
        self.told: list[str] = []
        self.fault: BaseException | None = None
        self._source = source
        self._stopped = threading.Event()

    def run(self) -> None:
        try:
            asyncio.run(self._run())
        except BaseException as fault:
            self.fault = fault

    async def _run(self) -> None:
        reading = asyncio.create_task(self._read())
        while not self._stopped.is_set() and not reading.done():
            await asyncio.sleep(0.05)
        reading.cancel()
        for ended in await asyncio.gather(reading, return_exceptions=True):
            if isinstance(ended, Exception):
                raise ended

    async def _read(self) -> None:
        async with KafkaReader(self._source) as reader:
            while True:
                try:
                    async for change in reader.changes():
                        self.found.setdefault(change.pointer, []).append(change)
                        with contextlib.suppress(KafkaUnavailable):
                            await reader.acknowledge()
                except CursorGone as gone:
                    await reader.accept(gone)
                    self.accepted.append(str(gone.facts["pointer"]))
                    self.told.append(f"{gone}")
                    self.found.pop(self.accepted[-1], None)

    def __enter__(self) -> GroupReader:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self.join(60)
        assert not self.is_alive() and self.fault is None, self.fault


def write(realm: str) -> Callable[[Headwater], None]:
    def commit(engine: Headwater) -> None:
        lake = engine.realm(realm).catalog("lake")
        for name in BRANCHES:
            lake.branch(name).commit([put(secrets.token_hex(4), 1)])

    return commit


def maintain(instance: str) -> Callable[[Headwater], None]:
    def run_once(engine: Headwater) -> None:
        store, known = engine.store, Identifiers()
        runs = Runs(store.backend, store.clock, lease_seconds=RUN_LEASE_SECONDS)
        with runs.run("expire") as run:
            expire_realms(store, run, [instance], parse_retention("*=100000n"))
        with runs.run("sweep") as run:
            wanted = SweepOptions(grace_seconds=GRACE_SECONDS_MIN, splits=1)
            source = WalkedSource(store.backend, known)
            Sweep(store, source, LocalExecutor(store.backend), known, wanted).run(runs, run, [instance])

    return run_once


def restart_when_alarmed(instance: str) -> Callable[[Headwater], None]:
    """What the alarm's remedy tells the operator to do, once: an alarm stays until its shard works again."""
    answered: list[str] = []

    def look(engine: Headwater) -> None:
        backend, clock = engine.store.backend, engine.store.clock
        alarms = [one.code for one in Alarms(backend, clock).list() if one.realm == instance and one.code in RESTARTING]
        if alarms and not answered:
            Generations(backend, clock).restart(instance)
            answered.extend(alarms)

    return look


@contextlib.contextmanager
def two_publishers(url: str, bootstrap: str) -> Iterator[None]:
    with contextlib.ExitStack() as running:
        for _ in range(2):
            engine = running.enter_context(headwater.open(url))
            running.enter_context(publishing(engine.store, options(bootstrap, partitions=2)))
        yield


@pytest.mark.timeout(400)
def test_a_backup_is_restored_under_publishers_groups_and_sweeps(store: RestorableStore, kafka_bootstrap: str) -> None:
    realm = f"restored-{secrets.token_hex(4)}"
    with headwater.open(store.url, create=True) as engine:
        new_lake(engine, realm).create_branch("dev")
        instance = instance_of(engine, realm)
    source = KafkaSource(bootstrap=kafka_bootstrap, realm=realm, group=f"{realm}-group")
    with (
        two_publishers(store.url, kafka_bootstrap),
        Beside(store.url, write(realm)) as writer,
        Beside(store.url, maintain(instance)) as maintainer,
        Beside(store.url, restart_when_alarmed(instance)),
    ):
        wait_until(writer.goes_on(), "nobody writes")
        with _group(source) as group:
            wait_until(lambda: len(group.found.get("cat/1/heads/dev", ())) > ROUNDS, "the group reads nothing")
            store.back_up()
            backed_up = time.time()
            wait_until(writer.goes_on(), "nobody writes what is lost")
            wait_until(lambda: _is_behind(group, backed_up), "the group does not come behind the backup")
            wait_until(maintainer.goes_on(), "nobody sweeps")
            store.restore()
            wait_until(writer.goes_on(), "nobody writes after the restore")
            wait_until(maintainer.goes_on(), "nobody sweeps after the restore", 120 + RUN_LEASE_SECONDS)
            wait_until(lambda: {f"cat/1/heads/{name}" for name in BRANCHES} <= set(group.accepted), "nobody is told")
            writer.stop()
            with headwater.open(store.url) as fresh:
                log = {pointer: changes for pointer, changes in log_of(fresh.store, instance).items() if "heads/" in pointer}
            wait_until(lambda: all(_last(group, one) == _last_of(log[one]) for one in log), "the group stays behind")
        assert _of_branches(group.found) == log, group.told
    subprocess.run([sys.executable, "-m", "headwater", "--store", store.url, "maintain", "check"], check=True)


@contextlib.contextmanager
def _group(source: KafkaSource) -> Iterator[GroupReader]:
    wait_until(lambda: _has_topic(source), "the topic is not there")
    with GroupReader(source) as group:
        yield group


def _has_topic(source: KafkaSource) -> bool:
    async def ask() -> bool:
        try:
            async with KafkaReader(source):
                return True
        except HeadwaterError:
            return False

    return asyncio.run(ask())


def _is_behind(group: GroupReader, moment: float) -> bool:
    newest = [changes[-1] for pointer, changes in group.found.items() if "heads/" in pointer and changes]
    return len(newest) >= len(BRANCHES) and all(datetime.fromisoformat(one.time).timestamp() > moment for one in newest)


def _of_branches(log: Log) -> Log:
    return {pointer: changes for pointer, changes in log.items() if "heads/" in pointer}


def _last(group: GroupReader, pointer: str) -> str:
    return _last_of(group.found.get(pointer, []))


def _last_of(changes: list[Change]) -> str:
    return changes[-1].entry_id if changes else ""
