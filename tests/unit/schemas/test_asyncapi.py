"""The AsyncAPI document says what the publisher really writes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headwater.producer.publisher.kafka.outgoing_records import KafkaRecord, Records
from headwater.producer.publisher.kafka.realm_topics import RealmTopics, Topic
from headwater.schemas.asyncapi import MESSAGES, asyncapi_document
from headwater.schemas.kafka_records import RecordType
from headwater.schemas.topics import access_topic, commits_topic, progress_topic
from tests.support.models.changes_sample import FULL_CHANGE

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "asyncapi.json"
REALM = "default#0123456789abcdef"
TOPICS = RealmTopics(
    commits=Topic(name=commits_topic(REALM), id="a", partitions=4),
    progress=Topic(name=progress_topic(REALM), id="b", partitions=4),
)
WHOLE = Records(REALM, 1, TOPICS, record_bytes_max=1_000_000)
TINY = Records(REALM, 1, TOPICS, record_bytes_max=10, dataref_base="http://127.0.0.1:8181")

EVERY_RECORD = {
    "change": (RecordType.CHANGE, WHOLE.change(FULL_CHANGE)),
    "claim check": (RecordType.CHANGE, TINY.change(FULL_CHANGE)),
    "baseline": (RecordType.BASELINE, WHOLE.baseline("p", 3, "e" * 64, 9, "f" * 64)),
    "baseline that continues": (RecordType.BASELINE, WHOLE.baseline("p", 3, "e" * 64, 3, "e" * 64, continues=1)),
    "purged": (RecordType.PURGED, WHOLE.purged("p", 3, 7, "e" * 64)),
    "moved": (RecordType.MOVED, WHOLE.moved("p", TOPICS.commits)),
    "truncated": (RecordType.TRUNCATED, WHOLE.truncated("p", 3, 7, "e" * 64)),
    "end": (RecordType.END, WHOLE.end(2)),
    "progress": (RecordType.PROGRESS, WHOLE.progress(WHOLE.position_of(FULL_CHANGE))),
}


def test_the_checked_in_document_is_the_generated_one() -> None:
    assert json.loads(DOCUMENT.read_text()) == asyncapi_document()


def test_every_record_type_is_described() -> None:
    assert set(MESSAGES) == set(RecordType)


@pytest.mark.parametrize(("type", "record"), EVERY_RECORD.values(), ids=EVERY_RECORD)
def test_records_have_the_headers_that_the_document_names(type: RecordType, record: KafkaRecord) -> None:
    _, always, sometimes = MESSAGES[type]
    names = {name for name, _ in record.headers}
    assert set(always) <= names <= {*always, *sometimes}
    assert dict(record.headers)["ce_type"] == str(type).encode()


@pytest.mark.parametrize("channel", ["commits", "access", "progress"])
def test_topics_are_named_as_documented(channel: str) -> None:
    address = asyncapi_document()["channels"][channel]["address"]
    name = {"commits": commits_topic, "access": access_topic, "progress": progress_topic}[channel](REALM)
    assert name == address.format(realm="default-0123456789abcdef")
