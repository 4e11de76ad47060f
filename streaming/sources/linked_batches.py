"""Splits a batch of Changes by pointer, and checks that each pointer's entries follow one another by id.

⚠ Entries are identified by their ids, never by their seqs: after a store was restored from a backup and published again, a
topic holds two histories under the same seqs. Each entry names its predecessor, so one XOR over hashes shows whether a batch is
one unbroken chain: the hashes of all entries but the last cancel those of all predecessors but the first.

All of this runs on executors: for each pointer the driver learns only the first and last entry, and a few numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec
from pyspark.sql import functions as sql

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

LINK_COLUMNS = ("realm_instance", "pointer", "seq", "entry_id", "previous_id")
"""The columns of a Change that are needed here."""


class PointerBatch(msgspec.Struct, frozen=True):
    """What a batch holds of one pointer."""

    realm: str
    pointer: str
    first: int
    last: int
    last_id: str
    previous_id: str
    """Id of the entry before the first one; empty before entry 1, or if it is not known."""
    is_linked: bool = True
    """Whether it is one unbroken chain. False if an entry is repeated or missing, or if two have the same seq."""

    def follows(self, seq: int, entry_id: str) -> bool:
        """Whether it is one unbroken chain after that entry (0 and no id: from the very first one on)."""
        return self.is_linked and self.first == seq + 1 and self.previous_id == entry_id


def pointer_batches(batch: DataFrame) -> list[PointerBatch]:
    """Takes two jobs, the first of which sums plain numbers: with ids in it, Spark would serialize a state for each entry."""
    grouped = batch.groupBy("realm_instance", "pointer").agg(
        sql.min("seq"), sql.max("seq"), sql.count(sql.lit(1)), sql.bit_xor(_entry_hash().bitwiseXOR(_previous_hash()))
    )
    counted = grouped.collect()
    ends = _ends(batch, {(realm, pointer): (first, last) for realm, pointer, first, last, *_ in counted}) if counted else {}
    found = []
    for realm, pointer, first, last, rows, links in counted:
        begins, stops = ends[realm, pointer, first], ends[realm, pointer, last]
        is_linked = (
            rows == last - first + 1
            and len(begins) == len(stops) == 1
            and links == begins[0].previous_hash ^ stops[0].entry_hash
        )
        found.append(PointerBatch(realm, pointer, first, last, stops[0].entry_id, begins[0].previous_id, is_linked))
    return found


class _End(NamedTuple):
    entry_id: str
    previous_id: str
    entry_hash: int
    previous_hash: int


def _ends(batch: DataFrame, bounds: dict[tuple[str, str], tuple[int, int]]) -> dict[tuple[str, str, int], list[_End]]:
    rows = [(realm, pointer, seq) for (realm, pointer), both in bounds.items() for seq in set(both)]
    wanted = batch.sparkSession.createDataFrame(rows, "realm_instance string, pointer string, seq bigint")
    named = batch.join(sql.broadcast(wanted), ["realm_instance", "pointer", "seq"])
    found: dict[tuple[str, str, int], list[_End]] = {}
    for realm, pointer, seq, *end in named.select(*LINK_COLUMNS, _entry_hash(), _previous_hash()).distinct().collect():
        found.setdefault((realm, pointer, seq), []).append(_End(*end))
    return found


def _entry_hash() -> Column:
    return sql.xxhash64(sql.col("seq"), sql.col("entry_id"))


def _previous_hash() -> Column:
    return sql.xxhash64(sql.col("seq") - 1, sql.col("previous_id"))
