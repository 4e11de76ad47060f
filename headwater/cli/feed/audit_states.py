"""`headwater audit states`: a past state of all branches and tags, or counts of changes, computed on Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import rich_click as click

from headwater.cli.output import as_json, echo, print_json, print_table
from headwater.cli.target import in_store_realm
from headwater.schemas.errors import InvalidInput
from headwater.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@click.command("states")
@click.option("--archive", metavar="PLACE", help="Read an archive instead of the log.")
@in_store_realm
@click.option("--at", metavar="TIME", help="The state of all branches and tags at that time. Default: now.")
@click.option("--commit", metavar="ID", help="The state at this commit instead.")
@click.option("--counts", is_flag=True, help="How often each table was changed, by day and author, instead of a state.")
@click.option("--output", metavar="PATH", help="Write all rows as Parquet to this folder.")
@click.option("--limit", type=click.IntRange(1), default=1_000, show_default=True, help="Rows to show.")
@as_json
@click.pass_obj
def states_command(
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
    """Show the state of every branch and tag at a time or commit, or count changes, from the log or an archive, on Spark.

    For one branch, `headwater snapshot 'main*TIME'` shows the same within seconds.
    """
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


def _changes(spark: SparkSession, settings: Settings, archive: str | None, realm: str) -> DataFrame:
    from headwater.streaming.archive.archive_targets import archive_target

    if archive is not None:
        target = archive_target(spark, archive)
        if target.position() is None:
            raise InvalidInput(f"there is no archive at {archive}.", field="--archive", remedy="Make one: maintain archive.")
        return target.changes()
    return spark.read.format("headwater").options(store=settings.store, realm=realm, until="start").load()
