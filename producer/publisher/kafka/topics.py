"""Finds a realm's topics on the brokers, and creates missing ones with explicit settings."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType  # type: ignore[attr-defined]

from headwater.producer.publisher.kafka.kafka_clients import translated
from headwater.producer.publisher.kafka.realm_topics import RealmTopics, Topic
from headwater.producer.publisher.options import PublisherOptions
from headwater.schemas.errors import KafkaUnavailable, TopicUnusable
from headwater.schemas.topics import access_topic, commits_topic, progress_topic, tables_topic

ADMIN_TIMEOUT_SECONDS = 10.0
GONE_LOOK_SECONDS = 0.05


class Topics:
    """Topics of one Kafka cluster."""

    def __init__(self, admin: AdminClient, options: PublisherOptions) -> None:
        self._admin = admin
        self._options = options
        self._timeout_seconds = min(ADMIN_TIMEOUT_SECONDS, options.kafka_timeout_seconds)

    def find(self, realms: Mapping[str, bool]) -> dict[str, RealmTopics | None]:
        """As they are now, in one question; None where one is missing. By realm: whether it has an access topic."""
        found = self._describe([name for realm, apart in realms.items() for name in _names(realm, apart)])
        topics: dict[str, RealmTopics | None] = {}
        for realm, apart in realms.items():
            there = [found[name] for name in _names(realm, apart) if name in found]
            is_whole = len(there) == len(_names(realm, apart))
            topics[realm] = (
                RealmTopics(commits=there[0], progress=there[1], access=there[2] if apart else None) if is_whole else None
            )
        return topics

    def still_there(self, topics: Sequence[Topic]) -> list[Topic]:
        """Those that are the same topics as ever, perhaps with more partitions."""
        found = self._describe([topic.name for topic in topics])
        return [found[topic.name] for topic in topics if topic.name in found and found[topic.name].id == topic.id]

    def ensure(self, realm: str, *, apart: bool = False) -> RealmTopics:
        """Create what is missing, with `apart` a topic of access records too; a topic that another process creates at the same
        time is not a fault."""
        wanted = {commits_topic(realm): self._commits(realm), progress_topic(realm): self._progress(realm)}
        if apart:
            wanted[access_topic(realm)] = self._access(realm)
        there = self._describe(list(wanted))
        self._create([topic for name, topic in wanted.items() if name not in there])
        found = self.find({realm: apart})[realm]
        if found is None:
            raise KafkaUnavailable(f"the topics of {realm} were created and are not shown yet.")
        return found

    def delete(self, realm: str) -> list[str]:
        """Those that are there, the consumer's one too; their names leave when the brokers show none of them any more."""
        names = [*_names(realm, apart=True), tables_topic(realm)]
        there = sorted(self._describe(names))
        if not there:
            return []
        for name, future in self._admin.delete_topics(there, operation_timeout=self._timeout_seconds).items():
            try:
                future.result(self._timeout_seconds * 2)
            except KafkaException as error:
                if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                    raise translated(error, f"deleting topic {name}") from error
            except TimeoutError as error:
                raise KafkaUnavailable(f"deleting topic {name}: no answer.") from error
        self._wait_until_gone(names)
        return there

    def _wait_until_gone(self, names: Sequence[str]) -> None:
        deadline = time.monotonic() + self._timeout_seconds
        while left := self._describe(names):
            if time.monotonic() > deadline:
                raise KafkaUnavailable(f"deleted topics are still shown: {', '.join(sorted(left))}.", remedy="Try again.")
            time.sleep(GONE_LOOK_SECONDS)

    def _commits(self, realm: str) -> NewTopic:
        return self._new(commits_topic(realm), self._options.partitions, self._of_changes())

    def _access(self, realm: str) -> NewTopic:
        """Its records are few: one partition keeps them in one order."""
        return self._new(access_topic(realm), 1, self._of_changes())

    def _of_changes(self) -> dict[str, str]:
        return {
            "cleanup.policy": "delete",
            "retention.ms": str(self._options.retention_ms),
            "retention.bytes": "-1",
            "max.message.bytes": str(max(1_048_588, self._options.record_bytes_max + 65_536)),
            **_always(),
            **self._options.topic_config,
        }

    def _progress(self, realm: str) -> NewTopic:
        config = {
            "cleanup.policy": "compact",
            "min.cleanable.dirty.ratio": "0.1",
            "segment.ms": str(3_600 * 1_000),
            "segment.bytes": str(16 * 1024 * 1024),
            "delete.retention.ms": str(24 * 3_600 * 1_000),
            **_always(),
        }
        return self._new(progress_topic(realm), self._options.shards, config)

    def _new(self, name: str, partitions: int, config: dict[str, str]) -> NewTopic:
        return NewTopic(name, num_partitions=partitions, replication_factor=self._options.replication_factor, config=config)

    def _create(self, wanted: list[NewTopic]) -> None:
        if not wanted:
            return
        for name, future in self._admin.create_topics(wanted, operation_timeout=self._timeout_seconds).items():
            try:
                future.result(self._timeout_seconds * 2)
            except KafkaException as error:
                if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise translated(error, f"creating topic {name}") from error
            except TimeoutError as error:
                raise KafkaUnavailable(f"creating topic {name}: no answer.") from error

    def _describe(self, names: Sequence[str]) -> dict[str, Topic]:
        found: dict[str, Topic] = {}
        if not names:
            return found
        futures = self._admin.describe_topics(TopicCollection(list(names)), request_timeout=self._timeout_seconds)
        for name, future in futures.items():
            try:
                described: Any = future.result(self._timeout_seconds * 2)
            except KafkaException as error:
                if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                    continue
                raise translated(error, f"describing topic {name}") from error
            except TimeoutError as error:
                raise KafkaUnavailable(f"describing topic {name}: no answer.") from error
            found[name] = Topic(name=name, id=str(described.topic_id), partitions=len(described.partitions))
        return found

    def check_same(self, topics: RealmTopics, *, may_have_grown: bool = True) -> None:
        """⚠ `KafkaUnavailable` if one was deleted or re-created since. Called after the last delivery report of a transaction:
        then all of it lies in the topics of its own generation, or it is not committed."""
        found = self._describe([topic.name for topic in topics.all])
        for topic in topics.all:
            now = found.get(topic.name)
            if now is None or now.id != topic.id:
                raise KafkaUnavailable(f"{topic.name} was deleted or re-created: a new generation begins.")
            if not may_have_grown and now.partitions != topic.partitions:
                raise KafkaUnavailable(
                    f"{topic.name} has {now.partitions} partitions, not {topic.partitions} as when this began.",
                    remedy="Try again.",
                )

    def check(self, topics: RealmTopics) -> None:
        """A progress topic that forgets by age would have all published again."""
        resource = ConfigResource(ResourceType.TOPIC, topics.progress.name)
        future = self._admin.describe_configs([resource], request_timeout=self._timeout_seconds)[resource]
        try:
            policy = future.result(self._timeout_seconds * 2)["cleanup.policy"].value
        except KafkaException as error:
            raise translated(error, f"describing topic {topics.progress.name}") from error
        if policy != "compact":
            raise TopicUnusable(
                f"{topics.progress.name} has cleanup.policy={policy} and would lose positions.",
                remedy="Set it to compact.",
                topic=topics.progress.name,
            )


def _names(realm: str, apart: bool) -> list[str]:
    return [commits_topic(realm), progress_topic(realm), *([access_topic(realm)] if apart else [])]


def _always() -> dict[str, str]:
    return {"compression.type": "producer", "message.timestamp.type": "CreateTime", "unclean.leader.election.enable": "false"}
