"""`headwater views` where bases are gone, and how it ends."""

from __future__ import annotations

import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

import headwater as library
from headwater.embedded import Headwater
from headwater.schemas.topics import commits_topic, partition_of
from tests.support.fixtures.cli_runs import headwater
from tests.support.fixtures.publisher_runs import instance_of, new_lake, options, publish_rest, put, wait_until
from tests.support.servers.ports import free_port
from tests.support.servers.served import served

WAIT_SECONDS = 120.0


class Lake:
    """A realm whose branch `dev` begins at an entry of main that is older than what main's log keeps."""

    def __init__(self, engine: Headwater, url: str, bootstrap: str) -> None:
        self.engine, self.url, self.bootstrap = engine, url, bootstrap
        self.realm = f"views-{secrets.token_hex(4)}"
        self.lake = new_lake(engine, self.realm)
        self.instance = instance_of(engine, self.realm)
        self.topic = commits_topic(self.instance)
        self.commit(3)
        self.dev = next(name for name in (f"dev{n}" for n in range(50)) if self._is_apart(f"cat/1/heads/{name}"))
        self.lake.create_branch(self.dev).commit([put("own", 1)])
        self.lake.merge(self.dev)  # the branch pins no older entry of main than this one
        self.commit(3)
        publish_rest(engine.store, options(bootstrap))

    def commit(self, count: int) -> None:
        for number in range(count):
            self.lake.branch().commit([put(f"t{number}", number)])

    def expire(self) -> None:
        done = headwater("--store", self.url, "maintain", "expire", "--keep", "*=1n", "--realm", self.realm, "--yes")
        assert done.code == 0, done.err
        assert self.engine.store.backend.read_pointer(self.instance, "cat/1/heads/main").floor > 4  # type: ignore[union-attr]

    def lose_records_of_main(self) -> None:
        """As retention does, in main's partition alone."""
        number = partition_of("cat/1/heads/main", 4)
        looking = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "look"})
        _, high = looking.get_watermark_offsets(TopicPartition(self.topic, number), timeout=20)
        looking.close()
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        for future in admin.delete_records([TopicPartition(self.topic, number, high)]).values():
            future.result(20)

    def is_shown(self, views: Views) -> bool:
        shown = [views.get("tables", pointer=f"cat/1/heads/{name}") for name in ("main", self.dev)]
        expected = [{entry.key: entry.value for entry in self.lake.snapshot(name)} for name in ("main", self.dev)]
        return [{tuple(one["key"]): one["value"] for one in found["tables"]} for found in shown] == expected

    def _is_apart(self, pointer: str) -> bool:
        return partition_of(pointer, 4) != partition_of("cat/1/heads/main", 4)


class Views:
    def __init__(self, lake: Lake, *flags: str, server: str = "") -> None:
        self.port = free_port()
        place = ["--server", server] if server else ["--store", lake.url]
        command = [sys.executable, "-m", "headwater", *place, "views", "--kafka", lake.bootstrap, "--realm", lake.realm]
        self.process = subprocess.Popen([*command, "--port", str(self.port), *flags], stderr=subprocess.PIPE, text=True)

    def get(self, path: str, **query: str) -> Any:
        return httpx.get(f"http://127.0.0.1:{self.port}/{path}/", params=query, timeout=5).json()

    def wait_for(self, lake: Lake) -> None:
        deadline = time.monotonic() + WAIT_SECONDS
        while True:
            assert self.process.poll() is None, self.process.communicate()[1]
            assert time.monotonic() < deadline, self.get("positions")
            try:
                if lake.is_shown(self):
                    return
            except (httpx.TransportError, ValueError):
                pass
            time.sleep(0.1)

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(30)


@contextmanager
def viewing(lake: Lake, *flags: str, server: str = "") -> Iterator[Views]:
    views = Views(lake, *flags, server=server)
    try:
        yield views
    finally:
        views.process.kill()
        views.process.wait()
        if views.process.stderr is not None:
            views.process.stderr.close()


@pytest.fixture
def lake(tmp_path: Path, kafka_bootstrap: str) -> Iterator[Lake]:
    url = f"sqlite:///{tmp_path}/lake.db"
    with library.open(url, create=True) as engine:
        yield Lake(engine, url, kafka_bootstrap)


def test_views_are_built_after_the_base_of_a_branch_expired_and_end_on_sigterm(lake: Lake) -> None:
    lake.expire()
    with served(lake.url) as server, viewing(lake, server=server.url) as views:
        views.wait_for(lake)
        assert views.stop() == 0


def test_a_base_that_neither_the_topic_nor_the_store_has_is_replaced_by_the_newest_state(lake: Lake) -> None:
    lake.expire()
    lake.lose_records_of_main()
    with viewing(lake, "--from-store") as views:
        views.wait_for(lake)
        lake.lake.branch(lake.dev).commit([put("later", 1)])
        lake.commit(1)
        publish_rest(lake.engine.store, options(lake.bootstrap))
        views.wait_for(lake)
        assert views.stop() == 0


def test_views_that_cannot_continue_print_the_reason_in_one_line_and_end(lake: Lake) -> None:
    lake.lose_records_of_main()
    with viewing(lake) as views:  # nobody to ask: the next record of main shows the gap
        wait_until(lambda: "cat/1/heads/" + lake.dev in positions(views), "the views have begun")
        lake.commit(1)
        publish_rest(lake.engine.store, options(lake.bootstrap))
        assert views.process.wait(60) == 2
        assert views.process.stderr is not None
        said = views.process.stderr.read().strip()
        assert "CHAIN_BROKEN" in said.splitlines()[-1], said


def positions(views: Views) -> dict[str, int]:
    try:
        found: dict[str, int] = views.get("positions")
    except (httpx.TransportError, ValueError):
        return {}
    return found


def test_bad_input_is_one_line(lake: Lake) -> None:
    there = ("views", "--kafka", lake.bootstrap)
    assert "REALM_NOT_FOUND" in headwater(*there, "--realm", "nobody").error
    assert "KAFKA_UNAVAILABLE" in headwater("views", "--kafka", "127.0.0.1:1").error
    assert "kafka_ssl_ca_location" in headwater("--set", "kafka_ssl_ca_location=x", *there).error
    assert "kafka_bootstrap" in headwater("views").error
