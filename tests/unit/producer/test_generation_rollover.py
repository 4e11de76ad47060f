"""The next generation begins in the topics, and among the partitions, that its first records were dealt to."""

from __future__ import annotations

import contextlib
from unittest.mock import Mock

import pytest

from headwater.producer.publisher.assignment.generation_rollover import GenerationRollover, _begun_in, _Layout
from headwater.producer.publisher.assignment.generations import Generation
from headwater.producer.publisher.kafka.progress import Recovered
from headwater.producer.publisher.kafka.realm_topics import RealmTopics, Topic
from headwater.producer.publisher.kafka.topics import Topics
from headwater.producer.publisher.options import PublisherOptions
from headwater.schemas.errors import KafkaUnavailable
from headwater.schemas.kafka_records import GenerationEnd


def topics(commits: int, progress: int = 2, *, id: str = "c1") -> RealmTopics:
    return RealmTopics(
        commits=Topic(name="r.commits", id=id, partitions=commits),
        progress=Topic(name="r.progress", id="p1", partitions=progress),
    )


def test_partitions_added_after_the_end_of_a_generation_do_not_count_for_the_next_one() -> None:
    """Its baselines lie where the smaller number put them. It is opened so, does not fit, and is ended in its turn."""
    end = GenerationEnd(realm="r", ended=2, begins=1, commits="c1", commits_partitions=3, progress_partitions=2)
    assert _begun_in(topics(4, 3), end) == topics(3, 2)
    assert _begun_in(topics(3, id="c2"), end) == topics(3, id="c1"), "re-created behind the end"


def test_an_end_record_without_partitions_leaves_them_unchanged() -> None:
    assert _begun_in(topics(4), GenerationEnd(realm="r", ended=2, commits="c1")) == topics(4)
    assert _begun_in(topics(4), None) == topics(4)


def rollover(now: RealmTopics, found: Recovered) -> GenerationRollover:
    """Of generation 1, where brokers have `now` and the progress topic holds `found`."""
    brokers = Topics(Mock(), PublisherOptions(bootstrap="127.0.0.1:1"))
    brokers._describe = lambda names: {topic.name: topic for topic in now.all}  # type: ignore[method-assign]
    reader = Mock(read=lambda *_: found)
    made = GenerationRollover(Mock(), Mock(), Mock(), Mock(), brokers, reader, Mock(), Mock())
    made._last_records = lambda *_: []  # type: ignore[method-assign]
    return made


@pytest.mark.parametrize("there", [2, 3])
def test_only_a_publisher_that_knows_all_partitions_ends_a_generation(there: int) -> None:
    """⚠ A publisher that was held up would leave out those that another one has published to since."""
    known, sender = topics(2), Mock()
    before = Generation(realm="r", number=1, topics=known, begins=1)
    ending = rollover(topics(there), Recovered({}, ended=0, begins=0, newest=1))
    with contextlib.nullcontext() if there == 2 else pytest.raises(KafkaUnavailable, match="3 partitions, not 2"):
        ending._end(before, known, sender, _Layout(known, ()))
    assert sender.commit.called == (there == 2)


def test_a_generation_that_another_publisher_has_ended_is_continued_where_that_end_says() -> None:
    end = GenerationEnd(realm="r", ended=1, begins=1, commits="c1", commits_partitions=3, progress_partitions=2)
    before, sender = Generation(realm="r", number=1, topics=topics(2), begins=1), Mock()
    ending = rollover(topics(4), Recovered({}, ended=1, begins=1, newest=1, end=end))
    assert ending._end(before, topics(4), sender, _Layout(topics(2), ())).topics == topics(3)
    assert not sender.commit.called


def test_a_publisher_that_knows_fewer_partitions_does_not_commit_the_end_of_a_generation() -> None:
    known, now = topics(2), topics(3)
    brokers = Topics(Mock(), PublisherOptions(bootstrap="127.0.0.1:1"))
    brokers._describe = lambda names: {topic.name: topic for topic in now.all}  # type: ignore[method-assign]
    brokers.check_same(known)
    brokers.check_same(now, may_have_grown=False)
    with pytest.raises(KafkaUnavailable, match="3 partitions, not 2"):
        brokers.check_same(known, may_have_grown=False)
