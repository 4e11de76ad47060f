"""Changes as fields of a frame, serialized and kept by their JSON: what many readers stream is made once, as their JSON is."""

from __future__ import annotations

from collections import OrderedDict

import msgspec

from headwater.schemas.change import Change
from headwater.schemas.rpc import feed_pb2
from headwater.service.grpc.messages.change_messages import change_message

ENTRY_BYTES = 300
"""What a kept Change takes beside its bytes."""
_LENGTH_DELIMITED = 2
_CHANGES = feed_pb2.Frame.DESCRIPTOR.fields_by_name["changes"].number

decode_change = msgspec.json.Decoder(Change).decode


class EncodedChanges:
    """One per event loop. ⚠ By the JSON itself, not by the entry's id: readers who may not see all of an entry get another
    JSON of it."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._kept: OrderedDict[bytes, bytes] = OrderedDict()
        self.bytes_used = 0
        self.made = 0

    def field(self, json: bytes) -> bytes:
        known = self._kept.get(json)
        if known is not None:
            return known
        made = wire_field(_CHANGES, change_message(decode_change(json)).SerializeToString())
        self.made += 1
        self._kept[json] = made
        self.bytes_used += _weight(json, made)
        while self.bytes_used > self._bytes_max:
            self.bytes_used -= _weight(*self._kept.popitem(last=False))
        return made


def wire_field(number: int, value: bytes) -> bytes:
    """A field of bytes or of a message, as protobuf writes it: its tag, its length and the value."""
    return bytes((number << 3 | _LENGTH_DELIMITED,)) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    if value < 0x80:
        return bytes((value,))
    return bytes((value & 0x7F | 0x80,)) + _varint(value >> 7)


def _weight(json: bytes, made: bytes) -> int:
    return len(json) + len(made) + ENTRY_BYTES
