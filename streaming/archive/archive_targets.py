"""Parquet files or an Iceberg table as an archive that holds each Change once and knows its own position.

⚠ Rows and position become visible in one step: a manifest that names the files of a batch, or a snapshot with the position in
its summary. So no checkpoint has to be trusted: the archive itself says where to continue.

⚠ A manifest is written under a lease that another process may take over at any moment. So when the files of a batch are
complete, its manifest is first put into the lease's row by CAS (`decide`). A successor that finds it there writes that very
manifest before it continues; a writer that has lost the lease cannot put it there. Files that no manifest names are removed a
day later.

⚠ Iceberg does not know the lease. There the snapshot itself is conditional: its commit fails if anybody has added rows since
the snapshot whose position the batch was compared with.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
from pyspark.sql import functions as sql

from headwater.schemas.errors import Conflict, InvalidInput, MissingDependency
from headwater.streaming.sources.change_rows import CHANGE_DDL
from headwater.streaming.sources.log_offsets import LogOffset, OffsetPosition, offset_of_text
from headwater.streaming.spark.hadoop_files import HadoopFiles

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ICEBERG = "iceberg:"
POSITION_PROPERTY = "headwater.position"
MANIFESTS, DATA = "_headwater/batches", "data"
UNFINISHED_SECONDS = 86_400
"""For this long, files that no manifest names are left alone: their writer may only be slow."""
_VALIDATION_FAILED = "org.apache.iceberg.exceptions.ValidationException"
_TABLE = re.compile(r"\w+(\.\w+)+")
_MANIFEST = re.compile(r"(\d{10})\.json")


Decide = Callable[[bytes], None]
"""Records what is about to become visible; raises if another process has taken over the archive."""


class ArchiveTarget(Protocol):
    def position(self) -> LogOffset | None:
        """The position up to which everything is archived; None for an empty archive."""

    def append(self, changes: DataFrame, position: LogOffset, decide: Decide) -> None:
        """Adds all rows and the position, or nothing."""

    def complete(self, decided: bytes) -> None:
        """Finish what the previous writer has decided and may not have finished."""

    def remove_unfinished(self) -> int:
        """Removes files of batches that were never completed, after a day."""

    def changes(self) -> DataFrame:
        """Everything that was archived, with the columns of `format("headwater")`."""


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """One batch of a Parquet archive: its files count once this manifest exists."""

    number: int
    folder: str
    position: str


class _Decision(msgspec.Struct, frozen=True, kw_only=True):
    """The record left in the lease's row: this manifest is part of the archive at that path."""

    path: str
    manifest: Manifest


class ParquetArchive:
    """`<path>/data/<batch>/*.parquet`, and one manifest per complete batch."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        self._spark = spark
        self._files = HadoopFiles(spark, path)
        self._newest: Manifest | None = None

    def position(self) -> LogOffset | None:
        numbers = self._numbers()
        self._newest = self._manifest(numbers[-1]) if numbers else None
        return offset_of_text(self._newest.position) if self._newest else None

    def append(self, changes: DataFrame, position: LogOffset, decide: Decide) -> None:
        number = self._next_number()
        folder = f"{DATA}/{number:010d}-{secrets.token_hex(4)}"
        changes.write.parquet(self._files.at(folder))
        manifest = Manifest(number=number, folder=folder, position=position.as_text())
        decide(msgspec.json.encode(_Decision(path=self._files.root, manifest=manifest)))
        self._write(manifest)

    def complete(self, decided: bytes) -> None:
        """False if the archive is another one, or was started again."""
        decision = msgspec.json.decode(decided, type=_Decision) if decided else None
        if decision is None or decision.path != self._files.root:
            return
        self.position()
        manifest = decision.manifest
        if manifest.number == self._next_number() and self._files.names(manifest.folder):
            self._write(manifest)

    def _write(self, manifest: Manifest) -> None:
        """The successor may have written it already."""
        try:
            self._files.write_new(_manifest_name(manifest.number), msgspec.json.encode(manifest))
        except Conflict:
            if self._manifest(manifest.number) != manifest:
                raise
        self._newest = manifest

    def _next_number(self) -> int:
        return 1 if self._newest is None else self._newest.number + 1

    def changes(self) -> DataFrame:
        folders = [self._files.at(self._manifest(number).folder) for number in self._numbers()]
        reader = self._spark.read.schema(CHANGE_DDL)
        return reader.parquet(*folders) if folders else self._spark.createDataFrame([], CHANGE_DDL)

    def remove_unfinished(self, seconds: float = UNFINISHED_SECONDS) -> int:
        """⚠ Only after a day: a manifest that names them may be about to be written."""
        whole = {self._manifest(number).folder for number in self._numbers()}
        stray = [path for name in self._files.names(DATA) if (path := f"{DATA}/{name}") not in whole]
        stray += [f"{MANIFESTS}/{name}" for name in self._files.names(MANIFESTS) if not _MANIFEST.fullmatch(name)]
        old = [path for path in stray if self._files.seconds_since_written(path) >= seconds]
        for path in old:
            self._files.delete(path)
        return len(old)

    def _numbers(self) -> list[int]:
        found = (_MANIFEST.fullmatch(name) for name in self._files.names(MANIFESTS))
        return [int(match.group(1)) for match in found if match]

    def _manifest(self, number: int) -> Manifest:
        return msgspec.json.decode(self._files.read(_manifest_name(number)), type=Manifest)


class IcebergArchive:
    """One table; each batch is one snapshot, with the position in its summary."""

    _base: int | None = None
    """The snapshot whose position was read last; None while the table is empty."""

    def __init__(self, spark: SparkSession, table: str) -> None:
        if not _TABLE.fullmatch(table):
            raise InvalidInput(f"{table!r} is not a table.", field="archive", remedy="Write iceberg:catalog.namespace.table.")
        self._spark = spark
        self._table = table
        self._check_jar()

    def position(self) -> LogOffset | None:
        """⚠ Reads the snapshot first: rows that are added in between are then refused as another writer's, never taken for
        known."""
        self._base = None
        if not self._spark.catalog.tableExists(self._table):
            return None
        self._refresh()
        newest = self._spark.sql(f"SELECT snapshot_id FROM {self._table}.refs WHERE name = 'main'").first()  # noqa: S608
        if newest is None:
            return None
        self._base = int(newest.snapshot_id)
        return self._position_in_summaries() or self._position_of_rows()

    def _position_in_summaries(self) -> LogOffset | None:
        """Snapshots without a position rewrote files and added nothing."""
        found = self._spark.sql(
            f"SELECT max_by(summary['{POSITION_PROPERTY}'], committed_at) AS position FROM {self._table}.snapshots "  # noqa: S608
            f"WHERE summary['{POSITION_PROPERTY}'] IS NOT NULL"
        ).first()
        return offset_of_text(found.position) if found is not None and found.position else None

    def _position_of_rows(self) -> LogOffset | None:
        """Used when all snapshots with a position have expired."""
        last = sql.max_by("entry_id", "seq").alias("entry_id")
        pointers = self._spark.table(self._table).groupBy("realm_instance", "pointer")
        rows = pointers.agg(sql.max("seq").alias("seq"), last).collect()
        positions = {row.pointer: OffsetPosition(row.seq, row.entry_id) for row in rows}
        return LogOffset(rows[0].realm_instance, positions) if rows else None

    def append(self, changes: DataFrame, position: LogOffset, decide: Decide) -> None:
        """⚠ An overwrite of nothing, because Iceberg validates only overwrites: the snapshot is refused if another writer has
        added rows since the position was read."""
        if not self._spark.catalog.tableExists(self._table):
            self._create()
        decide(b"")
        writer = changes.writeTo(self._table).option(f"snapshot-property.{POSITION_PROPERTY}", position.as_text())
        writer = writer.option("isolation-level", "serializable")
        if self._base is not None:
            writer = writer.option("validate-from-snapshot-id", str(self._base))
        try:
            writer.overwrite(sql.lit(False))
        except Exception as error:
            if _VALIDATION_FAILED not in f"{error}":
                raise
            raise Conflict(
                f"{self._table} was appended to by another process since its position was read; nothing was written.",
                field="archive",
                remedy="Run it again: it continues where the archive is now.",
            ) from None  # py4j cannot pass a chain of its own errors back through Spark

    def changes(self) -> DataFrame:
        """⚠ Each Change once, whatever else was written into the table: by hand, or by a version that appended without a
        condition."""
        self._refresh()
        return self._spark.table(self._table).dropDuplicates(["realm_instance", "pointer", "seq", "entry_id"])

    def complete(self, decided: bytes) -> None:
        """A snapshot is either complete or absent."""

    def remove_unfinished(self) -> int:
        """Files that no snapshot names are Iceberg's to remove (`remove_orphan_files`)."""
        return 0

    def _refresh(self) -> None:
        """⚠ Batches are written by a clone of the session, and each session caches tables as it last saw them."""
        self._spark.catalog.refreshTable(self._table)

    def _create(self) -> None:
        namespace = self._table.rpartition(".")[0]
        self._spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {namespace}")
        self._spark.sql(f"CREATE TABLE IF NOT EXISTS {self._table} ({CHANGE_DDL}) USING iceberg PARTITIONED BY (days(time))")

    def _check_jar(self) -> None:
        java: Any = self._spark._jvm
        loader = java.java.lang.Thread.currentThread().getContextClassLoader()
        try:
            java.java.lang.Class.forName("org.apache.iceberg.spark.SparkCatalog", False, loader)
        except Exception as error:
            raise MissingDependency(
                "Iceberg's jar is not in this Spark session.",
                field="archive",
                remedy="Open the session with headwater.wiring.spark.open_spark.",
            ) from error


def archive_target(spark: SparkSession, where: str) -> ArchiveTarget:
    """`iceberg:catalog.namespace.table`, or the path of a folder of Parquet files."""
    if where.startswith(ICEBERG):
        return IcebergArchive(spark, where.removeprefix(ICEBERG))
    return ParquetArchive(spark, where)


def _manifest_name(number: int) -> str:
    return f"{MANIFESTS}/{number:010d}.json"
