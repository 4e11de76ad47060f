"""Where a realm's retained set stands in its topics, kept in a file beside the set.

⚠ Only a bookmark, written after the set: entry ids decide what is in the set.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from headwater.streaming.retained.retained_store import RetainedStore

BOOKMARK = "kafka-offsets.json"

Offsets = dict[str, dict[str, int]]
"""Topic → partition → the next offset, as Spark writes them."""


class TopicBounds(NamedTuple):
    begin: int
    end: int


def read_bookmark(folder: str, instance: str) -> Offsets | None:
    """None if there is none, or it cannot be read."""
    try:
        return msgspec.json.decode((RetainedStore(folder, instance).folder / BOOKMARK).read_bytes(), type=Offsets)
    except (OSError, msgspec.MsgspecError):
        return None


def write_bookmark(folder: str, instance: str, offsets: Offsets) -> None:
    file = RetainedStore(folder, instance).folder / BOOKMARK
    unfinished = file.with_name(f"{BOOKMARK}.{secrets.token_hex(4)}")
    with contextlib.suppress(OSError):  # the realm is purged, or its folder full: then it is read from the log
        unfinished.write_bytes(msgspec.json.encode(offsets))
        unfinished.replace(file)


def is_within(mark: Offsets, there: Mapping[str, Mapping[str, TopicBounds]]) -> bool:
    """⚠ Covers every partition, and no other: records of a partition that is not in it would be skipped."""
    if mark.keys() != there.keys() or any(mark[topic].keys() != there[topic].keys() for topic in mark):
        return False
    return all(at.begin <= mark[topic][partition] <= at.end for topic, of in there.items() for partition, at in of.items())
