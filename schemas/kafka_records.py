"""Decodes the headers and value of a Kafka record into a typed record of the feed, and frames Avro values.

Headers are CloudEvents 1.0 in binary mode. A Change is either JSON, as the feed shows it over HTTP, or Avro: in the
single-object encoding (C3 01, fingerprint) without a schema registry, in Confluent's wire format (00, schema id) with one. The
first byte shows which, so a topic may hold all of them. Records other than Changes have no value: all is in the headers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import Any

import fastavro
import fastavro.schema
import msgspec

from headwater.schemas.avro.avro_codec import CHANGE_SCHEMA, from_avro, to_avro
from headwater.schemas.change import Change
from headwater.schemas.errors import ChainBroken
from headwater.schemas.value_format import ValueFormat

SINGLE_OBJECT_MAGIC = b"\xc3\x01"
CONFLUENT_MAGIC = b"\x00"
JSON_MAGIC = b"{"


CONTENT_TYPES = {ValueFormat.AVRO: b"application/avro", ValueFormat.JSON: b"application/json"}
_change_of_json = msgspec.json.Decoder(Change).decode

_CANONICAL = fastavro.schema.to_parsing_canonical_form(CHANGE_SCHEMA)
FINGERPRINT = bytes.fromhex(fastavro.schema.fingerprint(_CANONICAL, "CRC-64-AVRO"))
SINGLE_OBJECT_PREFIX = SINGLE_OBJECT_MAGIC + FINGERPRINT

Headers = list[tuple[str, str | bytes | None]]
SchemaById = Callable[[int], dict[str, Any]]
"""The writer's schema for a registry's id."""


class RecordType(StrEnum):
    CHANGE = "io.headwater.change"
    BASELINE = "io.headwater.baseline"
    """The pointer's first record of a generation: the others follow this seq. With `continues` they extend an earlier
    generation; without it the history starts over and replaces earlier generations."""
    TRUNCATED = "io.headwater.truncated"
    """Entries (from, sequence] were cut from the log before they were published."""
    PURGED = "io.headwater.purged"
    """The pointer is gone with its catalog: its log ended with this seq, and was published up to `from_seq`."""
    MOVED = "io.headwater.moved"
    """The pointer's records continue in another topic of the realm, whose layout was changed."""
    END = "io.headwater.end"
    """The last record of a generation in this partition."""
    PROGRESS = "io.headwater.progress"


class FeedRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One record of the commits topic. Types that a later version adds are left to the reader to skip."""

    type: str
    id: str
    pointer: str
    generation: int
    seq: int
    from_seq: int | None = None
    entry_id: str = ""
    """Of the entry `seq`; empty before the first."""
    head_seq: int = 0
    """Of a baseline: the pointer's newest entry when it was written, so that a reader knows what it will be given."""
    head_id: str = ""
    continues: int = 0
    """Of a baseline: the generation that holds the entries up to `seq`; 0 where the generation starts over."""
    change: Change | None = None
    dataref: str = ""
    """Where to find a Change that was too large for Kafka; `digest` is the digest of its Avro."""
    digest: str = ""

    @property
    def is_claim_check(self) -> bool:
        return bool(self.dataref)


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """The value of the progress topic, as JSON: where a pointer's head is, as far as Kafka knows."""

    realm: str
    pointer: str
    generation: int
    seq: int
    entry_id: str
    """Empty before the first entry."""
    commit_id: str = ""
    kind: str = ""
    time: str = ""
    topic: str = ""
    """Where the pointer's records are; empty means the commits topic."""


GENERATION_KEY = b"::generation::"


class GenerationEnd(msgspec.Struct, frozen=True, kw_only=True):
    """The value under `GENERATION_KEY` in progress partition 0."""

    realm: str
    ended: int
    """Up to which generation all have ended."""
    begins: int = 1
    """The newest generation that started over. Records of earlier ones are not of the history that is published now."""
    commits: str = ""
    """Id of the commits topic that the next generation was to begin in."""
    access: str = ""
    """The same for the access topic; empty if it was to have none."""
    commits_partitions: int = 0
    progress_partitions: int = 0
    access_partitions: int = 0
    """Over how many partitions of its topics the next generation spreads pointers; 0 if the record does not say."""


def sequence_text(seq: int) -> bytes:
    """CloudEvents compares sequences as text, so they have a fixed number of digits."""
    return b"%020d" % seq


def decode_record(
    headers: Iterable[tuple[str, bytes]] | None, value: bytes | None, schema_by_id: SchemaById | None = None
) -> FeedRecord:
    """`ChainBroken` for a record that no publisher writes."""
    found = dict(headers or ())
    try:
        type, id = found["ce_type"].decode(), found["ce_id"].decode()
        generation, seq = int(found["ce_generation"]), int(found.get("ce_sequence", b"0"))
    except (KeyError, ValueError) as error:
        raise ChainBroken(f"a record of the commits topic has no header {error}.") from error
    return FeedRecord(
        type=type,
        id=id,
        pointer=found.get("ce_subject", b"").decode(),
        generation=generation,
        seq=seq,
        entry_id=id if type == RecordType.CHANGE else found.get("ce_entryid", b"").decode(),
        head_seq=int(found.get("ce_headsequence", b"0")),
        head_id=found.get("ce_headid", b"").decode(),
        continues=int(found.get("ce_continues", b"0")),
        from_seq=int(found["ce_fromsequence"]) if "ce_fromsequence" in found else None,
        change=None if value is None or type != RecordType.CHANGE else decode_change(value, schema_by_id),
        dataref=found.get("ce_dataref", b"").decode(),
        digest=found.get("ce_datadigest", b"").decode(),
    )


def decode_change(value: bytes, schema_by_id: SchemaById | None = None) -> Change:
    """Whichever frame it is in. A foreign fingerprint is a version that this one does not know the schema of."""
    if value.startswith(SINGLE_OBJECT_PREFIX):
        return from_avro(value[len(SINGLE_OBJECT_PREFIX) :])
    if value.startswith(CONFLUENT_MAGIC):
        schema = None if schema_by_id is None else schema_by_id(int.from_bytes(value[1:5], "big"))
        return from_avro(value[5:], schema)
    if value.startswith(JSON_MAGIC):
        return change_of_json(value)
    raise ChainBroken(f"a Change has an unknown framing: it begins with {value[:10].hex()}.")


def change_of_json(value: bytes) -> Change:
    """Fields that this version does not know are dropped."""
    try:
        return _change_of_json(value)
    except msgspec.DecodeError as error:
        raise ChainBroken(f"a Change in JSON cannot be read: {error}.") from error


def digest_of(change: Change) -> str:
    """What a claim check names, to be compared with what its reference gives: always of the Avro, whatever the format."""
    return avro_digest(to_avro(change))


def avro_digest(datum: bytes) -> str:
    return f"sha256:{hashlib.sha256(datum).hexdigest()}"
