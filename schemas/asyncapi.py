"""Generates the AsyncAPI 3 document of the Kafka feed from topics, record types and the Change's schema."""

from __future__ import annotations

from typing import Any

import msgspec

from headwater.schemas.avro.avro_codec import CHANGE_SCHEMA
from headwater.schemas.kafka_records import Progress, RecordType

AVRO = "application/vnd.apache.avro;version=1.9.0"

_ALWAYS = ("ce_id", "ce_type", "ce_specversion", "ce_source", "ce_generation")
_OF_POINTER = ("ce_sequence", "ce_partitionkey", "ce_subject")

MESSAGES: dict[RecordType, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    RecordType.CHANGE: (
        "One log entry of one pointer, in Avro, or in JSON by its content-type. Without a value: a claim check.",
        (*_ALWAYS, *_OF_POINTER, "ce_previousid", "ce_time", "ce_kind", "content-type"),
        ("ce_dataref", "ce_datadigest"),
    ),
    RecordType.BASELINE: (
        "The pointer's first record of a generation. It continues the one in ce_continues; without it, history starts over.",
        (*_ALWAYS, *_OF_POINTER, "ce_entryid", "ce_headsequence", "ce_headid"),
        ("ce_continues",),
    ),
    RecordType.TRUNCATED: (
        "Entries (ce_fromsequence, ce_sequence] were cut from the log before they were published.",
        (*_ALWAYS, *_OF_POINTER, "ce_fromsequence", "ce_entryid"),
        (),
    ),
    RecordType.PURGED: (
        "The pointer was purged with its catalog. Its log ended with ce_sequence and was published up to ce_fromsequence.",
        (*_ALWAYS, *_OF_POINTER, "ce_fromsequence", "ce_entryid"),
        (),
    ),
    RecordType.MOVED: (
        "The pointer's records continue in the topic that ce_topic names. It is the last record of the pointer here.",
        (*_ALWAYS, *_OF_POINTER, "ce_topic"),
        (),
    ),
    RecordType.END: ("The last record of a generation in its partition.", _ALWAYS, ()),
    RecordType.PROGRESS: ("The newest published entry of a pointer: its head.", ("ce_type", "content-type"), ()),
}
"""Record type → what it says, the headers it always has, and those it may have."""


def asyncapi_document() -> dict[str, Any]:
    return {
        "asyncapi": "3.0.0",
        "info": {"title": "Headwater feed on Kafka", "version": "1", "description": _ABOUT},
        "defaultContentType": AVRO,
        "channels": {
            "commits": _channel("headwater.{realm}.commits", "Every Change, keyed by pointer, in order.", _COMMITS),
            "access": _channel(
                "headwater.{realm}.access", "Changes of principals, roles, grants and policies, if kept apart.", _COMMITS
            ),
            "progress": _channel(
                "headwater.{realm}.progress", "Compacted: the newest published entry of a pointer.", _PROGRESS
            ),
        },
        "operations": {
            "readChanges": _reading("commits", _COMMITS),
            "readAccessChanges": _reading("access", _COMMITS),
            "readHeads": _reading("progress", _PROGRESS),
        },
        "components": {"messages": {_name(type): _message(type) for type in MESSAGES}},
    }


_ABOUT = (
    "Read with isolation.level=read_committed. The partition of a pointer is the first eight bytes of SHA-256 of its name, "
    "big-endian, modulo the number of partitions. Gaps are found by ce_sequence, which is dense per pointer, never by offsets."
)
_COMMITS = (RecordType.CHANGE, RecordType.BASELINE, RecordType.TRUNCATED, RecordType.PURGED, RecordType.MOVED, RecordType.END)
_PROGRESS = (RecordType.PROGRESS,)


def _channel(address: str, description: str, types: tuple[RecordType, ...]) -> dict[str, Any]:
    instance = {"description": "The realm's instance, name-creationid, in Kafka's alphabet."}
    messages = {_name(type): {"$ref": f"#/components/messages/{_name(type)}"} for type in types}
    return {"address": address, "description": description, "parameters": {"realm": instance}, "messages": messages}


def _reading(channel: str, types: tuple[RecordType, ...]) -> dict[str, Any]:
    messages = [{"$ref": f"#/channels/{channel}/messages/{_name(type)}"} for type in types]
    return {"action": "receive", "channel": {"$ref": f"#/channels/{channel}"}, "messages": messages}


def _message(type: RecordType) -> dict[str, Any]:
    summary, always, sometimes = MESSAGES[type]
    headers = {
        "type": "object",
        "required": list(always),
        "properties": {name: {"type": "string"} for name in (*always, *sometimes)} | {"ce_type": {"const": str(type)}},
    }
    message: dict[str, Any] = {"name": str(type), "summary": summary, "headers": headers}
    if type is RecordType.CHANGE:
        message |= {"contentType": AVRO, "payload": {"schemaFormat": AVRO, "schema": CHANGE_SCHEMA}}
    if type is RecordType.PROGRESS:
        _, definitions = msgspec.json.schema_components([Progress])
        message |= {"contentType": "application/json", "payload": definitions["Progress"]}
    return message


def _name(type: RecordType) -> str:
    return type.rpartition(".")[2]
