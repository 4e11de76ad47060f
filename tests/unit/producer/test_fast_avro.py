"""The fast way to a Change's Avro gives the same bytes as the general one, whatever the entry holds."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.persistence.log.log_entry import Entry, LogRecord, StoredBase, StoredOperation, StoredSource, change_of, id_of
from headwater.producer.publisher.kafka import fast_avro
from headwater.producer.publisher.kafka.fast_avro import encode_entry
from headwater.schemas.avro.avro_codec import from_avro, to_avro
from headwater.schemas.change import Kind, Op
from headwater.schemas.kafka_records import FINGERPRINT

text = st.text(max_size=200)
ids = st.integers(1, 2**63 - 1)
hashes = st.binary(min_size=32, max_size=32)
keys = st.lists(text, max_size=4).map(tuple)
values = st.none() | st.dictionaries(text, st.none() | st.integers(-(2**63), 2**63 - 1) | text | st.lists(text), max_size=5)
operations = st.builds(
    StoredOperation,
    op=st.sampled_from(list(Op)),
    key=keys,
    content_id=st.binary(min_size=16, max_size=16),
    type=text,
    tag=st.integers(0, 9),
    before=values,
    after=values,
    before_id=st.just(0) | ids,
    after_id=st.just(0) | ids,
    from_key=st.none() | keys,
)
entries = st.builds(
    Entry,
    pointer=text,
    seq=st.integers(1, 2**62),
    kind=st.sampled_from(list(Kind)),
    previous=hashes,
    commit=st.just(b"") | hashes,
    parent=st.just(b"") | hashes,
    head_before=st.just(b"") | hashes,
    time=st.integers(0, 4_000_000_000_000_000),
    author=text,
    message=st.text(max_size=6_000),
    headers=st.dictionaries(text, text, max_size=3),
    request_id=text,
    operations=st.lists(operations, max_size=3).map(tuple),
    index_added=st.lists(ids, max_size=3).map(tuple),
    index_released=st.lists(ids, max_size=3).map(tuple),
    levels=st.just(()),
    embeds=st.booleans(),
    back=st.just(()),
    tail_length=st.just(0),
    jump_id=st.just(0),
    jump_seq=st.just(0),
    base=st.none() | st.builds(StoredBase, text, st.integers(0, 2**40), hashes),
    source=st.none() | st.builds(StoredSource, text, hashes),
)


def logged(entry: Entry, object_id: int) -> LogRecord:
    return LogRecord(id_of(entry, object_id), entry)


@given(entries, ids)
def test_both_ways_give_the_same_bytes(entry: Entry, object_id: int) -> None:
    one = logged(entry, object_id)
    change = change_of(one, "default")
    encoded = encode_entry(one, "default")
    assert encoded.datum == to_avro(change)
    assert (encoded.entry_id.decode(), encoded.time) == (change.entry_id, change.time)
    assert from_avro(encoded.datum) == change


def test_the_fast_way_is_written_for_the_schema_in_force() -> None:
    assert fast_avro.WRITTEN_FOR == FINGERPRINT, "adapt encode_entry to the schema, then this number"


@given(entries, ids)
def test_another_schema_uses_the_general_encoder(entry: Entry, object_id: int) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(fast_avro, "WRITTEN_FOR", b"")
        patched.setattr(fast_avro, "_text", None)
        one = logged(msgspec.structs.replace(entry), object_id)
        assert encode_entry(one, "default").datum == to_avro(change_of(one, "default"))
