"""`headwater maintain archive`: copies the history of a realm to an archive, on Spark."""

from __future__ import annotations

from typing import Any

import rich_click as click
from rich.console import Console

from headwater.cli.maintenance.maintain_output import progress_bar
from headwater.cli.output import as_json, echo, print_json
from headwater.cli.target import in_store_realm
from headwater.settings import Settings


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


COMMANDS = (archive_command,)
"""What the group `maintain` adds."""
