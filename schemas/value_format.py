"""The formats in which the value of a Change is written to Kafka."""

from __future__ import annotations

from enum import StrEnum


class ValueFormat(StrEnum):
    AVRO = "avro"
    JSON = "json"
