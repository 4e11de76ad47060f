"""Rebuilds the state of every reference at a time or commit, or counts changes, from an archive or the log.

The state of a reference is its segment's operations over the state of the segment's base, over that one's base, and so on.
Which ranges of which logs those are is worked out on executors, one catalog at a time; the newest operation of each key wins.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
from pyspark.sql import functions as sql

from headwater.schemas.change import COMMITTING_KINDS, Kind
from headwater.schemas.entry_ids import micros_of, parse_id
from headwater.schemas.errors import CursorExpired, ReferenceNotFound

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

REFERENCES = r"^cat/[0-9]+/(heads|tags)/"
LINEAGE_DDL = "root string, depth bigint, pointer string, first bigint, last bigint"
LINEAGE_ARROW = pa.schema(
    [("root", pa.string()), ("depth", pa.int64()), ("pointer", pa.string()), ("first", pa.int64()), ("last", pa.int64())]
)
OPENING_KINDS = (Kind.CREATE, Kind.ASSIGN, Kind.DELETE)


class Opener(msgspec.Struct, frozen=True, array_like=True):
    """A create, assign or delete: where a segment begins, and what it stands on."""

    seq: int
    base_pointer: str | None = None
    base_seq: int = 0


class ReplayRange(msgspec.Struct, frozen=True, array_like=True):
    """Entries first to last of a pointer, whose operations count for a root; sections closer to the root have a smaller
    depth."""

    depth: int
    pointer: str
    first: int
    last: int


def lineage(pointer: str, seq: int, openers: dict[str, list[Opener]]) -> list[ReplayRange]:
    """The sections that make the state of `pointer` at `seq`. Pure; openers are in order of seq."""
    found: list[ReplayRange] = []
    here, last = pointer, seq
    while last > 0:
        of_pointer = openers.get(here, [])
        at = bisect_right([opener.seq for opener in of_pointer], last) - 1
        opener = of_pointer[at] if at >= 0 else Opener(1)
        found.append(ReplayRange(len(found), here, opener.seq, last))
        if opener.base_pointer is None:
            break
        here, last = opener.base_pointer, opener.base_seq
    return found


def states(changes: DataFrame, *, at: str | None = None, commit: str | None = None) -> DataFrame:
    """Every key of every branch and tag: pointer, seq, commit_id, key, content_id, type, value (JSON). The state is the current
    one, that of a time, or that of one commit. If history that is needed is gone, this is `CursorExpired`, never a partial
    state."""
    references = changes.where(sql.col("pointer").rlike(REFERENCES))
    roots = _root_at_commit(references, commit) if commit else _roots_at_time(references, at)
    sections = _lineages(references, roots).persist()
    _check_complete(references, sections)
    newest = _newest_of_each_key(references, sections)
    return newest.join(roots.select(sql.col("pointer").alias("root"), "seq", "commit_id"), "root").select(
        sql.col("root").alias("pointer"), "seq", "commit_id", "key", "content_id", "type", "value"
    )


def change_counts(changes: DataFrame) -> DataFrame:
    """How often each table was changed, by day, pointer, table and author."""
    operations = changes.select(
        sql.to_date("time").alias("day"), "pointer", "author", sql.explode("operations").alias("operation")
    )
    return (
        operations.groupBy("day", "pointer", sql.concat_ws(".", "operation.key").alias("table"), "author")
        .agg(sql.count("*").alias("changes"))
        .orderBy("day", "pointer", "table", "author")
    )


# ── which sections ─────────────────────────────────────────────────────────────────────────────────────────


def _roots_at_time(references: DataFrame, at: str | None) -> DataFrame:
    """The newest entry of each reference that was not deleted then."""
    before = references
    if at is not None:
        then = sql.timestamp_micros(sql.lit(micros_of(at, field="at")))
        _check_not_cut(references, then)
        before = references.where(sql.col("time") <= then)
    newest = before.groupBy("pointer").agg(sql.max_by(sql.struct("seq", "kind", "commit_id"), "seq").alias("newest"))
    return newest.where(sql.col("newest.kind") != str(Kind.DELETE)).select("pointer", "newest.seq", "newest.commit_id")


def _check_not_cut(references: DataFrame, then: Column) -> None:
    """⚠ A reference whose known history begins after that time, and not with its first entry, existed then, but its state is
    unknown."""
    begins = references.groupBy("pointer").agg(sql.min("seq").alias("first"), sql.min("time").alias("since"))
    cut = begins.where((sql.col("first") > 1) & (sql.col("since") > then)).first()
    if cut is not None:
        raise CursorExpired(
            f"{cut.pointer}: what was before entry {cut['first']} of {cut.since} is not there any more.",
            field="at",
            remedy="Replay from an archive that goes further back, or ask for a later time.",
        )


def _root_at_commit(references: DataFrame, commit: str) -> DataFrame:
    parse_id(commit)
    found = references.where((sql.col("entry_id") == commit) & sql.col("kind").isin([str(kind) for kind in COMMITTING_KINDS]))
    root = found.select("pointer", "seq", "commit_id").persist()
    if root.isEmpty():
        raise ReferenceNotFound(f"there is no commit {commit}.", field="commit", remedy="Take one from the log or the archive.")
    return root


def _lineages(references: DataFrame, roots: DataFrame) -> DataFrame:
    """A reference is based only on references of its own catalog, so catalogs are processed in parallel."""
    catalog = sql.regexp_extract("pointer", r"^cat/([0-9]+)/", 1).alias("catalog")
    opening = references.where(sql.col("kind").isin([str(kind) for kind in OPENING_KINDS]))
    openers = opening.select(catalog, "pointer", "seq", sql.lit(False).alias("is_root"), "base")
    no_base = sql.lit(None).cast("struct<pointer:string,seq:bigint,commit_id:string>").alias("base")
    tips = roots.select(catalog, "pointer", "seq", sql.lit(True).alias("is_root"), no_base)
    return openers.unionByName(tips).groupBy("catalog").applyInArrow(_lineages_of_catalog, LINEAGE_DDL)


def _lineages_of_catalog(rows: pa.Table) -> pa.Table:
    openers: dict[str, list[Opener]] = {}
    roots: list[tuple[str, int]] = []
    for row in rows.sort_by("seq").to_pylist():
        base = row["base"]
        if row["is_root"]:
            roots.append((row["pointer"], row["seq"]))
        else:
            opener = Opener(row["seq"], base["pointer"], base["seq"]) if base else Opener(row["seq"])
            openers.setdefault(row["pointer"], []).append(opener)
    found = [
        {"root": pointer, "depth": one.depth, "pointer": one.pointer, "first": one.first, "last": one.last}
        for pointer, seq in roots
        for one in lineage(pointer, seq, openers)
    ]
    return pa.Table.from_pylist(found, schema=LINEAGE_ARROW)


def _check_complete(references: DataFrame, sections: DataFrame) -> None:
    """⚠ Every entry of every range must be there: a truncated history yields no state."""
    wanted = sections.select("pointer", "first", "last").distinct()
    present = references.select(sql.col("pointer").alias("of"), "seq")
    joined = wanted.join(
        present, (sql.col("pointer") == sql.col("of")) & sql.col("seq").between(sql.col("first"), sql.col("last")), "left"
    )
    counted = joined.groupBy("pointer", "first", "last").agg(sql.count("seq").alias("rows"))
    missing = counted.where(sql.col("rows") < sql.col("last") - sql.col("first") + 1).first()
    if missing is not None:
        raise CursorExpired(
            f"{missing.pointer}: of entries {missing['first']} to {missing['last']} only {missing.rows} are there.",
            field="at",
            remedy="Replay from an archive that goes further back, or take a snapshot of the store.",
        )


# ── which operations ────────────────────────────────────────────────────────────────────────────────────────


def _newest_of_each_key(references: DataFrame, sections: DataFrame) -> DataFrame:
    operations = references.select(sql.col("pointer").alias("of"), sql.col("seq").alias("entry"), sql.posexplode("operations"))
    events = operations.select("of", "entry", "pos", sql.explode(_events()).alias("event"))
    belongs = (sql.col("pointer") == sql.col("of")) & sql.col("entry").between(sql.col("first"), sql.col("last"))
    ordered = sql.struct(-sql.col("depth"), "entry", "pos", "event.turn")
    newest = (
        sections.join(events, belongs)
        .groupBy("root", sql.col("event.key").alias("key"))
        .agg(sql.max_by("event", ordered).alias("newest"))
    )
    kept = newest.where("newest.value IS NOT NULL")
    return kept.select("root", "key", "newest.content_id", "newest.type", "newest.value")


def _events() -> Column:
    """A rename counts as two operations: its old key becomes empty, then its new key holds the value."""

    def event(key: str, turn: int, value: Any) -> Column:
        names = (sql.col(key).alias("key"), sql.lit(turn).alias("turn"), sql.col("col.content_id"), sql.col("col.type"))
        return sql.struct(*names, value.alias("value"))

    sets = event("col.key", 1, sql.col("col.after"))
    clears = event("col.from_key", 0, sql.lit(None).cast("string"))
    return sql.when(sql.col("col.from_key").isNotNull(), sql.array(clears, sets)).otherwise(sql.array(sets))


def as_records(rows: Iterable[Any]) -> list[dict[str, Any]]:
    """For people and JSON: values parsed, keys as lists."""
    return [
        {**row.asDict(), "key": list(row.key), "value": msgspec.json.decode(row.value)} if "value" in row else row.asDict()
        for row in rows
    ]
