"""The steps of a real shard on real Kafka are watched: the validator passes it, and catches what was made wrong on purpose."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import headwater
from headwater.embedded import Headwater
from headwater.producer.publisher.kafka.sender import Sender
from headwater.producer.publisher.publisher import Publisher
from headwater.producer.publisher.shards.fault_points import FaultPoint
from headwater.producer.publisher.shards.shard import Shard
from headwater.producer.publisher.shards.shard_states import ShardState
from headwater.schemas.topics import transactional_id
from tests.support.fixtures.publisher_runs import WAIT_SECONDS, new_lake, options, write_history
from tests.support.models.feed_validators import check_protocol


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Headwater]:
    with headwater.open(f"sqlite:///{tmp_path}/lake.db", create=True) as opened:
        write_history(new_lake(opened), 0, 1)
        yield opened


def steps_of(engine: Headwater, bootstrap: str) -> list[FaultPoint]:
    steps: list[FaultPoint] = []
    publisher = Publisher(engine.store, options(bootstrap, shards=1, batch_changes=10), at=steps.append)
    publisher.publish_once(WAIT_SECONDS)
    assert FaultPoint.NOTED in steps
    return steps


def test_a_shard_passes_its_steps_in_order(engine: Headwater, kafka_bootstrap: str) -> None:
    steps = steps_of(engine, kafka_bootstrap)
    assert check_protocol(steps) == []
    assert steps.count(FaultPoint.AFTER_COMMIT) > 1, "there was one batch only"


def test_reading_the_progress_before_the_fence_is_caught(
    engine: Headwater, kafka_bootstrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def begin(self: Shard) -> None:
        context, topics = self._context, self._context.generation.topics
        context.at(FaultPoint.LEASED)
        recovered = context.reader.recover(self.realm, topics.progress.name, self.number, context.generation.number)
        context.at(FaultPoint.RECOVERED)
        self._sender = Sender(context.options, transactional_id(self.realm, context.generation.number, self.number))
        context.at(FaultPoint.FENCED)
        self._published = recovered.positions
        self.state = ShardState.RECOVERED

    monkeypatch.setattr(Shard, "_begin", begin)
    faults = check_protocol(steps_of(engine, kafka_bootstrap))
    assert "recovered follows leased" in faults


def test_counting_as_published_before_the_delivery_report_is_caught(
    engine: Headwater, kafka_bootstrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    flush = Sender.flush
    early: list[Shard] = []
    send_batch = Shard._send_batch

    def noting_shard(self: Shard, sender: Sender | None) -> None:
        early.append(self)
        send_batch(self, sender)

    def flush_after_noting(self: Sender) -> None:
        early[-1]._context.at(FaultPoint.NOTED)
        flush(self)

    monkeypatch.setattr(Shard, "_send_batch", noting_shard)
    monkeypatch.setattr(Sender, "flush", flush_after_noting)
    assert "noted follows after-send" in check_protocol(steps_of(engine, kafka_bootstrap))
