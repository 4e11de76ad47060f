"""`headwater maintain archive` and `replay`: an archive, a past state or counts, computed on Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import rich_click as click
from rich.console import Console

from headwater.cli.maintenance.maintain_output import progress_bar
from headwater.cli.output import as_json, echo, print_json, print_table
from headwater.cli.target import in_store_realm
from headwater.schemas.errors import InvalidInput
from headwater.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

at_archive = click.option("--archive", metavar="PLACE", help="Read an archive instead of the log.")


@click.command("archive")
@click.argument("place")
@in_store_realm
@click.option("--follow", is_flag=True, help="Continue until interrupted.")
@click.option(
    "--batch", "changes_per_batch", type=click.IntRange(1), default=100_000, show_default=True, help="Changes per batch."
)
@as_json
@click.pass_obj
def archive_command(
    settings: Settings, place: str, realm: str, follow: bool, changes_per_batch: int, json_output: bool
) -> None:
    """Update an archive of the realm's history, each change exactly once.

    PLACE is a folder for Parquet files, on any file system that Spark can write to, or iceberg:catalog.namespace.table.
    """
    from headwater.wiring.sweeps import quiet_spark

    spark = quiet_spark(settings)
    from headwater.streaming.archive.archive import archive_log, reader_of
    from headwater.streaming.archive.archive_targets import archive_target
    from headwater.streaming.spark.spark_errors import typed_errors

    with typed_errors(), progress_bar() as bar:
        target = archive_target(spark, place)
        read: list[int] = []

        def report(progress: dict[str, Any]) -> None:
            read.append(int(progress["numInputRows"]))
            bar.add("changes", read[-1])

        try:
            archive_log(
                spark,
                target,
                store=settings.store,
                realm=realm,
                reader=reader_of(place),
                changes_per_batch=changes_per_batch,
                is_stopping=(lambda: False) if follow else None,
                report=report,
            )
        except KeyboardInterrupt:
            Console(stderr=True).print("interrupted; the archive is whole up to the last batch")
        after = target.position()
    pointers = {} if after is None else after.pointers
    archived = sum(read)  # not by seqs: an archive may begin where history was cut
    if json_output:
        print_json({"archive": place, "archived": archived, "position": None if after is None else after.as_json()})
        return
    echo(f"{archived} changes were archived; {place} holds {len(pointers)} pointers")


@click.command("replay")
@at_archive
@in_store_realm
@click.option("--at", metavar="TIME", help="The state of all branches and tags at that time. Default: now.")
@click.option("--commit", metavar="ID", help="The state at this commit instead.")
@click.option("--counts", is_flag=True, help="How often each table was changed, by day and author, instead of a state.")
@click.option("--output", metavar="PATH", help="Write all rows as Parquet to this folder.")
@click.option("--limit", type=click.IntRange(1), default=1_000, show_default=True, help="Rows to show.")
@as_json
@click.pass_obj
def replay_command(
    settings: Settings,
    archive: str | None,
    realm: str,
    at: str | None,
    commit: str | None,
    counts: bool,
    output: str | None,
    limit: int,
    json_output: bool,
) -> None:
    """Rebuild the state of every branch and tag at a time or commit, or count changes, from the log or an archive."""
    if sum(map(bool, (at, commit, counts))) > 1:
        raise InvalidInput("only one of --at, --commit and --counts can be meant.", field="--at", remedy="Choose one.")
    from headwater.wiring.sweeps import quiet_spark

    spark = quiet_spark(settings)
    from headwater.streaming.archive.replay import as_records, change_counts, states
    from headwater.streaming.spark.spark_errors import typed_errors

    with typed_errors():
        changes = _changes(spark, settings, archive, realm)
        rows = change_counts(changes) if counts else states(changes, at=at, commit=commit)
        if output:
            rows.write.parquet(output)
            echo(f"{spark.read.parquet(output).count()} rows are in {output}")
            return
        ordered = rows if counts else rows.orderBy("pointer", "key")
        found = as_records(ordered.limit(limit).collect())
    if json_output:
        print_json(found)
    elif counts:
        print_table(
            ["day", "pointer", "table", "author", "changes"],
            [(row["day"], row["pointer"], row["table"], row["author"], row["changes"]) for row in found],
        )
    else:
        print_table(
            ["pointer", "seq", "key", "type", "value"],
            [(row["pointer"], row["seq"], ".".join(row["key"]), row["type"], row["value"]) for row in found],
        )


COMMANDS = (archive_command, replay_command)
"""What the group `maintain` adds."""


def _changes(spark: SparkSession, settings: Settings, archive: str | None, realm: str) -> DataFrame:
    from headwater.streaming.archive.archive_targets import archive_target

    if archive is not None:
        target = archive_target(spark, archive)
        if target.position() is None:
            raise InvalidInput(f"there is no archive at {archive}.", field="--archive", remedy="Make one: maintain archive.")
        return target.changes()
    return spark.read.format("headwater").options(store=settings.store, realm=realm, until="start").load()
