"""Records on the wire: names of topics, partitions, frames, headers and claim checks, as consumers rely on them."""

from __future__ import annotations

import hashlib

import fastavro
import msgspec
import pytest

from headwater.persistence.log.log_entry import Entry, LogRecord, StoredOperation, change_of
from headwater.producer.publisher.kafka.outgoing_records import KafkaRecord, Records
from headwater.producer.publisher.kafka.realm_topics import RealmTopics, Topic
from headwater.schemas.avro.avro_codec import CHANGE_SCHEMA, to_avro
from headwater.schemas.change import Change, Op
from headwater.schemas.entry_ids import micros_of
from headwater.schemas.errors import ChainBroken
from headwater.schemas.kafka_records import (
    FINGERPRINT,
    SINGLE_OBJECT_PREFIX,
    Progress,
    RecordType,
    decode_change,
    decode_record,
)
from headwater.schemas.topics import (
    commits_topic,
    is_access_pointer,
    partition_of,
    progress_topic,
    tables_topic,
    transactional_id,
)
from headwater.schemas.value_format import ValueFormat
from tests.support.models.changes_sample import FULL_CHANGE

REALM = "default#0123456789abcdef"
TOPICS = RealmTopics(
    commits=Topic(name=commits_topic(REALM), id="c", partitions=7),
    progress=Topic(name=progress_topic(REALM), id="p", partitions=3),
)


LOGGED = LogRecord(
    bytes.fromhex(FULL_CHANGE.entry_id),
    Entry(
        pointer=FULL_CHANGE.pointer,
        seq=FULL_CHANGE.seq,
        kind=FULL_CHANGE.kind,
        previous=b"p" * 32,
        commit=b"",
        parent=b"",
        head_before=b"",
        time=micros_of(FULL_CHANGE.time),
        author="ada",
        message="m",
        headers={},
        request_id="r",
        operations=(StoredOperation(Op.PUT, ("db", "orders"), bytes(16), "ICEBERG_TABLE", 1, None, {"a": "x" * 100}),),
        index_added=(),
        index_released=(),
        levels=(),
        embeds=False,
        back=(),
        tail_length=0,
        jump_id=0,
        jump_seq=0,
    ),
)
CHANGE = change_of(LOGGED, "default")


def to_frame(change: Change) -> bytes:
    return SINGLE_OBJECT_PREFIX + to_avro(change)


def on_wire(record: KafkaRecord) -> list[tuple[str, bytes]]:
    """What a consumer gets: bytes."""
    return [(name, value.encode() if isinstance(value, str) else value or b"") for name, value in record.headers]


def records(**changed: object) -> Records:
    return Records(REALM, 2, TOPICS, **{"record_bytes_max": 900_000, **changed})  # type: ignore[arg-type]


def test_topics_are_named_by_realm_instance_in_kafkas_alphabet() -> None:
    assert commits_topic(REALM) == "headwater.default-0123456789abcdef.commits"
    assert progress_topic(REALM) == "headwater.default-0123456789abcdef.progress"
    assert tables_topic(REALM) == "headwater.default-0123456789abcdef.tables"
    assert transactional_id(REALM, 2, 3) == "headwater.default-0123456789abcdef.2.3"
    assert len(commits_topic("x" * 100 + "#0123456789abcdef")) < 249


def test_only_pointers_of_catalogs_tasks_branches_and_tags_share_the_commits_topic() -> None:
    for pointer in ("catalogs", "immediate-tasks", "cat/1/heads/main", "cat/12/tags/v1/grants"):
        assert not is_access_pointer(pointer)
    for pointer in ("principals", "grants", "policy-mappings", "cat/1/roles", "cat/1/grants", "root", "added-later"):
        assert is_access_pointer(pointer)


def test_the_partition_is_the_documented_hash_and_never_changes() -> None:
    digest = hashlib.sha256(b"cat/1/heads/main").digest()
    assert partition_of("cat/1/heads/main", 7) == int.from_bytes(digest[:8], "big") % 7
    assert [partition_of(f"cat/{n}/heads/main", 4) for n in range(1, 9)] == [3, 1, 2, 3, 3, 0, 1, 3]


def test_without_a_registry_a_change_is_single_object_avro() -> None:
    record = records().entry(LOGGED)
    assert record.value is not None
    assert record.value[:2] == b"\xc3\x01"
    fingerprint = fastavro.schema.fingerprint(fastavro.schema.to_parsing_canonical_form(CHANGE_SCHEMA), "CRC-64-AVRO")
    assert record.value[2:10] == FINGERPRINT == bytes.fromhex(fingerprint)
    assert decode_change(record.value) == CHANGE


def test_with_a_registry_a_change_is_in_confluents_wire_format() -> None:
    record = records(schema_id=77).entry(LOGGED)
    assert record.value is not None
    assert record.value[:5] == b"\x00\x00\x00\x00\x4d"
    assert decode_change(record.value) == CHANGE
    assert decode_change(record.value, {77: CHANGE_SCHEMA}.__getitem__) == CHANGE


def test_in_json_a_change_is_what_the_feed_shows_over_http() -> None:
    record = records(value_format=ValueFormat.JSON).entry(LOGGED)
    assert record.value is not None
    assert msgspec.json.decode(record.value) == msgspec.json.decode(msgspec.json.encode(CHANGE))
    assert dict(on_wire(record))["content-type"] == b"application/json"
    assert decode_record(on_wire(record), record.value) == decode_record(on_wire(records().entry(LOGGED)), to_frame(CHANGE))
    with pytest.raises(ChainBroken, match="JSON"):
        decode_change(b'{"realm": 1}')


def test_a_claim_check_has_the_same_digest_in_every_format() -> None:
    small = {"record_bytes_max": 100}
    avro, in_json = records(**small).entry(LOGGED), records(value_format=ValueFormat.JSON, **small).entry(LOGGED)
    assert in_json.value is None
    assert dict(on_wire(in_json))["ce_datadigest"] == dict(on_wire(avro))["ce_datadigest"]


def test_headers_are_cloudevents_in_binary_mode() -> None:
    record = records().entry(LOGGED)
    headers = dict(on_wire(record))
    assert headers["ce_specversion"] == b"1.0"
    assert headers["ce_id"] == FULL_CHANGE.entry_id.encode()
    assert headers["ce_type"] == b"io.headwater.change"
    assert headers["ce_source"] == b"/realms/default%230123456789abcdef"
    assert headers["ce_sequence"] == b"00000000000000000007"
    assert headers["ce_partitionkey"] == headers["ce_subject"] == record.key == b"cat/1/heads/main"
    assert headers["ce_time"] == FULL_CHANGE.time.encode()
    assert headers["ce_generation"] == b"2"
    assert headers["content-type"] == b"application/avro"
    assert (record.topic, record.partition) == (TOPICS.commits.name, partition_of("cat/1/heads/main", 7))


def test_a_change_over_the_limit_is_a_reference_with_a_digest() -> None:
    record = records(record_bytes_max=100).entry(LOGGED)
    assert record.value is None
    found = decode_record(on_wire(record), record.value)
    assert found.is_claim_check and found.change is None and found.id == FULL_CHANGE.entry_id
    assert found.dataref == "/feed/v1/default/changes?pointer=cat%2F1%2Fheads%2Fmain&after=6&limit=1"
    assert found.digest == "sha256:" + hashlib.sha256(to_avro(CHANGE)).hexdigest()


def test_records_that_are_no_change_have_no_value_and_say_all_in_their_headers() -> None:
    made = records()
    cut = made.truncated("cat/1/heads/main", 3, 9, "ab" * 32)
    found = decode_record(on_wire(cut), cut.value)
    assert (found.type, found.from_seq, found.seq, found.generation) == (RecordType.TRUNCATED, 3, 9, 2)
    end = made.end(5)
    assert (end.partition, end.key, decode_record(on_wire(end), end.value).type) == (5, None, RecordType.END)
    purged = made.purged("cat/1/heads/main", 8, 9, "ab" * 32)
    found = decode_record(on_wire(purged), purged.value)
    assert (found.type, found.from_seq, found.seq, found.entry_id) == (RecordType.PURGED, 8, 9, "ab" * 32)


def test_a_baseline_names_its_first_entry_the_head_of_the_log_and_what_it_continues() -> None:
    made = records()
    anew = made.baseline("cat/1/heads/main", 4, "ab" * 32, 9, "cd" * 32)
    found = decode_record(on_wire(anew), None)
    assert (found.seq, found.entry_id, found.head_seq, found.head_id, found.continues) == (4, "ab" * 32, 9, "cd" * 32, 0)
    goes_on = made.baseline("cat/1/heads/main", 4, "ab" * 32, 4, "ab" * 32, continues=1)
    assert decode_record(on_wire(goes_on), None).continues == 1


def test_progress_is_json_in_the_pointers_own_shard() -> None:
    made = records().progress(records().position_of(FULL_CHANGE))
    assert made.partition == partition_of("cat/1/heads/main", 3)
    assert made.value is not None
    found = msgspec.json.decode(made.value, type=Progress)
    assert (found.realm, found.generation, found.seq, found.entry_id) == (REALM, 2, 7, FULL_CHANGE.entry_id)


@pytest.mark.parametrize("value", [b"", b"{}", b"\xc3\x01" + bytes(8) + b"x"])
def test_a_value_in_no_known_frame_is_refused(value: bytes) -> None:
    with pytest.raises(ChainBroken):
        decode_change(value)


@pytest.mark.parametrize(
    "headers", [None, [], [("ce_type", b"x")], [("ce_type", b"x"), ("ce_id", b"y"), ("ce_generation", b"z")]]
)
def test_a_record_without_our_headers_is_refused(headers: list[tuple[str, bytes]] | None) -> None:
    with pytest.raises(ChainBroken):
        decode_record(headers, None)


def test_an_entry_and_its_change_make_the_same_record() -> None:
    by_entry, by_change = records().entry(LOGGED), records().change(CHANGE, LOGGED.entry.previous.hex())
    assert by_entry._replace(headers=[]) == by_change._replace(headers=[])
    assert on_wire(by_entry) == on_wire(by_change)
