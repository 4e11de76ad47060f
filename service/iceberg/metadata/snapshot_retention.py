"""Decides which snapshots of a table, and which of its own branches and tags, have outlived their retention.

The rules are Iceberg's: a branch keeps its newest snapshots by number and by age, with the branch's own settings first, then
the table's properties, then the caller's defaults; a tag keeps its snapshot; a branch or tag over its age goes, except `main`;
a snapshot that no branch leads to is kept by age alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from headwater.schemas.whole_numbers import NUMBER_MAX, whole_number
from headwater.service.iceberg.metadata.shapes import Plain
from headwater.service.iceberg.metadata.table_snapshots import MAIN

MAX_SNAPSHOT_AGE, MIN_SNAPSHOTS, MAX_REF_AGE = "max-snapshot-age-ms", "min-snapshots-to-keep", "max-ref-age-ms"
_PROPERTIES = "history.expire."


class SnapshotRule(msgspec.Struct, frozen=True):
    """What is kept where neither branch nor table says otherwise."""

    age_ms: int
    number: int = 1
    overrides: bool = False
    """Whether the rule counts before the settings of branch and table."""


class Expired(msgspec.Struct, frozen=True):
    snapshots: tuple[int, ...] = ()
    """In the order of the table."""
    refs: tuple[str, ...] = ()


def expired(table: Plain, rule: SnapshotRule, now_ms: int) -> Expired:
    snapshots: Mapping[int, Plain] = {one["snapshot-id"]: one for one in table["snapshots"]}
    refs = {name: ref for name, ref in table["refs"].items() if ref["snapshot-id"] in snapshots}
    old_refs = tuple(name for name, ref in refs.items() if name != MAIN and _is_old(table, ref, snapshots, now_ms))
    kept: set[int] = set()
    led_to: set[int] = set()
    for name, ref in refs.items():
        if name in old_refs:
            continue
        if ref["type"] == "tag":
            kept.add(ref["snapshot-id"])
            continue
        age_ms, number = _limits(table, ref, rule)
        for position, snapshot in enumerate(_ancestors(snapshots, ref["snapshot-id"])):
            led_to.add(snapshot["snapshot-id"])
            if position < max(1, number) or snapshot["timestamp-ms"] > now_ms - age_ms:
                kept.add(snapshot["snapshot-id"])
    age_ms, _ = _limits(table, {}, rule)
    for id, snapshot in snapshots.items():
        if id not in led_to and snapshot["timestamp-ms"] > now_ms - age_ms:
            kept.add(id)
    return Expired(tuple(id for id in snapshots if id not in kept), old_refs)


def _ancestors(snapshots: Mapping[int, Plain], id: int | None) -> Iterator[Plain]:
    """The newest first. ⚠ Ends where a parent is gone, or where damaged metadata leads in a circle."""
    seen: set[int] = set()
    while id is not None and id in snapshots and id not in seen:
        seen.add(id)
        yield snapshots[id]
        id = snapshots[id].get("parent-snapshot-id")


def _limits(table: Plain, ref: Plain, rule: SnapshotRule) -> tuple[int, int]:
    if rule.overrides:
        return rule.age_ms, rule.number
    age_ms = _setting(table, ref, MAX_SNAPSHOT_AGE)
    number = _setting(table, ref, MIN_SNAPSHOTS)
    return rule.age_ms if age_ms is None else age_ms, rule.number if number is None else number


def _is_old(table: Plain, ref: Plain, snapshots: Mapping[int, Plain], now_ms: int) -> bool:
    age_ms = _setting(table, ref, MAX_REF_AGE)
    return age_ms is not None and snapshots[ref["snapshot-id"]]["timestamp-ms"] <= now_ms - age_ms


def _setting(table: Plain, ref: Plain, name: str) -> int | None:
    """⚠ A property that is not a number keeps everything: it was meant to say something."""
    if ref.get(name) is not None:
        return int(ref[name])
    stated = table["properties"].get(_PROPERTIES + name)
    if stated is None:
        return None
    number = whole_number(stated.strip())
    return NUMBER_MAX if number is None else number
