"""Shows what is published, and how far Kafka is behind, whether or not a publisher lives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.cli.output import echo, print_json, print_table
from headwater.persistence.store import Store
from headwater.producer.publisher.options import PublisherOptions
from headwater.schemas.extras import needs_extra

if TYPE_CHECKING:
    from headwater.producer.publisher.assignment.generations import Generation
    from headwater.producer.publisher.publish_lag import PointerLag, ShardLag

POINTERS_SHOWN = 20


def show_publish_status(store: Store, options: PublisherOptions | None, json_output: bool) -> None:
    """With options what Kafka has is read from the brokers, else from the store."""
    from headwater.producer.publisher.assignment.alarms import Alarms
    from headwater.producer.publisher.assignment.generations import Generations
    from headwater.producer.publisher.assignment.shard_leases import Leases

    generations = Generations(store.backend, store.clock).list()
    alarms = Alarms(store.backend, store.clock).list()
    publishers = Leases(store.backend, store.clock, 10.0).members()
    lags = [lag for generation in generations for lag in _lags(store, generation, options)]
    if json_output:
        print_json({"publishers": publishers, "generations": generations, "alarms": alarms, "lag": lags})
        return
    echo(f"{len(publishers)} publishers")
    for generation in generations:
        topics = ", ".join(f"{topic.name} ({topic.partitions} partitions)" for topic in generation.topics.of_changes)
        echo(f"{generation.realm}: generation {generation.number}, {generation.shards} shards, {topics}")
    if not generations:
        echo("nothing of this store was ever published")
    _show_lags(lags)
    if alarms:
        print_table(["realm", "shard", "alarm", "message"], [(a.realm, a.shard, a.code, a.message) for a in alarms])


def _lags(store: Store, generation: Generation, options: PublisherOptions | None) -> list[ShardLag]:
    from headwater.producer.publisher.publish_lag import published_in_kafka, published_in_store, shard_lags

    if options is None:
        return shard_lags(store, generation, published_in_store(store, generation))
    with needs_extra("reading Kafka", "kafka"):
        from headwater.producer.publisher.kafka.kafka_clients import make_admin
        from headwater.producer.publisher.kafka.progress import ProgressReader
    return shard_lags(store, generation, published_in_kafka(ProgressReader(make_admin(options), options), generation))


def _show_lags(lags: list[ShardLag]) -> None:
    if not lags:
        return
    columns = ["realm", "shard", "pointers", "changes behind", "seconds behind"]
    print_table(columns, [(lag.realm, lag.shard, lag.pointers, lag.commits, round(lag.seconds, 1)) for lag in lags])
    behind: list[tuple[str, PointerLag]] = [(lag.realm, one) for lag in lags for one in lag.behind]
    if behind:
        behind.sort(key=lambda found: -found[1].seconds)
        print_table(
            ["realm", "pointer", "in Kafka", "head", "seconds behind"],
            [(realm, one.pointer, one.published, one.head, round(one.seconds, 1)) for realm, one in behind[:POINTERS_SHOWN]],
            title=f"{len(behind)} pointers are behind"
            + (f", the first {POINTERS_SHOWN}" if len(behind) > POINTERS_SHOWN else ""),
        )
