"""A realm that is imported beside a running publisher reaches Kafka whole, from where its history begins."""

from __future__ import annotations

import asyncio
import secrets
from pathlib import Path

import headwater
from headwater.consumers.kafka.kafka_reader import KafkaReader
from headwater.consumers.kafka.kafka_source import KafkaSource
from headwater.schemas.change import Change
from headwater.streaming.expire.expire import expire_realms
from headwater.streaming.expire.retention import parse_retention
from headwater.streaming.runs.runs import Runs
from tests.support.fixtures.publisher_runs import (
    instance_of,
    is_caught_up,
    log_of,
    new_lake,
    options,
    publishing,
    put,
    wait_until,
)
from tests.support.fixtures.transferred import export, load

Log = dict[str, list[Change]]


def read(bootstrap: str, realm: str, group: str) -> Log:
    async def reading() -> Log:
        found: Log = {}
        async with KafkaReader(KafkaSource(bootstrap=bootstrap, realm=realm, group=group)) as reader:
            async for change in reader.changes(follow=False):
                found.setdefault(change.pointer, []).append(change)
            await reader.acknowledge()
        return found

    return asyncio.run(reading())


def test_an_imported_realm_is_published_from_where_its_history_begins(tmp_path: Path, kafka_bootstrap: str) -> None:
    name = f"copy-{secrets.token_hex(4)}"
    with headwater.open(f"sqlite:///{tmp_path}/source.db", create=True) as source:
        lake = new_lake(source)
        for number in range(8):
            lake.branch().commit([put("t", number)])
        lake.create_branch("dev")
        with Runs(source.store.backend, source.store.clock).run("expire") as run:
            expire_realms(source.store, run, [instance_of(source)], parse_retention("cat/*=3n"))
        file = export(source.store, tmp_path, "default").file
    with headwater.open(f"sqlite:///{tmp_path}/target.db", create=True) as target:
        with publishing(target.store, options(kafka_bootstrap)) as publisher:
            load(target.store, file, name)
            realm = instance_of(target, name)
            wait_until(lambda: is_caught_up(publisher, target.store, realm), "the copy is published")
            log = log_of(target.store, realm)
            assert [change.seq for change in log["cat/1/heads/main"]] == [7, 8, 9]
            assert read(kafka_bootstrap, name, f"{name}-readers") == log
            target.realm(name).catalog("lake").branch().commit([put("t", 9)])
            wait_until(lambda: is_caught_up(publisher, target.store, realm), "what follows is published")
        newest = log_of(target.store, realm)["cat/1/heads/main"][-1]
        assert read(kafka_bootstrap, name, f"{name}-readers") == {"cat/1/heads/main": [newest]}
