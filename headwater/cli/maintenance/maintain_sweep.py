"""`headwater maintain sweep`, `check` and `retained`: deletes garbage, or checks what must stay."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

import msgspec
import rich_click as click

from headwater.cli.maintenance.maintain_output import (
    Amount,
    dry_run,
    failed_if,
    in_realms,
    progress_bar,
    realm_labels,
    supersede,
)
from headwater.cli.output import as_json, echo, print_json, print_table
from headwater.cli.target import the_store
from headwater.settings import Settings

if TYPE_CHECKING:
    from headwater.persistence.store import Store
    from headwater.streaming.runs.runs import CountsByRealm

by_stream = click.option("--stream", is_flag=True, help="Use the streamed retained set instead of a walk.")
on_spark = click.option(
    "--spark", "use_spark", is_flag=True, help="Mark, scan and delete on Spark's workers instead of threads."
)


@click.command("sweep")
@in_realms
@click.option("--grace", metavar="SECONDS", type=Amount(), default=10_800.0, show_default=True, help="Younger objects stay.")
@click.option(
    "--filter",
    "filter_kind",
    type=click.Choice(["exact", "bloom"]),
    default="exact",
    show_default=True,
    help="Filter for the retained ids.",
)
@by_stream
@on_spark
@click.option("--splits", type=click.IntRange(1, 100_000), default=16, show_default=True, help="Number of parts of the table.")
@click.option("--threads", type=click.IntRange(1, 256), default=4, show_default=True, help="Number of threads without --spark.")
@click.option("--rows-per-second", type=Amount(0), default=0.0, help="Limit of scanned rows. Default: none.")
@click.option("--deletes-per-second", type=Amount(0), default=0.0, help="Limit of deleted rows. Default: none.")
@dry_run
@supersede
@as_json
@click.pass_obj
def sweep_command(
    settings: Settings,
    realms: Sequence[str],
    grace: float,
    filter_kind: str,
    stream: bool,
    use_spark: bool,
    splits: int,
    threads: int,
    rows_per_second: float,
    deletes_per_second: float,
    dry_run: bool,
    supersede: str | None,
    json_output: bool,
) -> None:
    """Delete objects that no retained state reaches and that are older than the grace.

    A realm that fails stays as it is, and the others continue; exit code 1 means that something is left for the next run.
    """
    from headwater.schemas.entry_ids import time_text
    from headwater.streaming.reachability.retained_identifiers import installed_identifiers
    from headwater.streaming.runs.realm_sets import instances_to_maintain, purged_by_sweeps
    from headwater.streaming.runs.runs import Runs
    from headwater.streaming.sweep.sweep import Sweep, SweepOptions, check_grace
    from headwater.wiring.sweeps import SweepPlan, sweep_backend

    check_grace(grace)
    options = msgspec.convert(
        {
            "grace_seconds": grace,
            "filter": filter_kind,
            "splits": splits,
            "rows_per_second": rows_per_second,
            "deletes_per_second": deletes_per_second,
            "dry_run": dry_run,
        },
        SweepOptions,
    )
    with the_store(settings) as store:
        instances = instances_to_maintain(store, realms)
        identifiers = installed_identifiers()
        plan = SweepPlan(on_spark=use_spark, by_stream=stream, threads=threads)
        backend = sweep_backend(settings, plan, store, identifiers)
        with progress_bar() as bar, closing(backend):
            sweep = Sweep(
                store,
                backend.source,
                backend.executor,
                identifiers,
                options,
                on_progress=bar.add,
                on_swept=backend.on_swept,
            )
            runs = Runs(store.backend, store.clock)
            with runs.run("sweep", dry_run=dry_run, supersede=supersede) as run:
                report = sweep.run(runs, run, instances, () if realms else purged_by_sweeps(store))
    if json_output:
        print_json({"run": run.record.id, "dry_run": dry_run, **msgspec.to_builtins(report)})
    else:
        print_counts(report.counts)
        for realm, why in report.skipped.items():
            echo(f"{realm} was skipped: {why}")
        if dry_run:
            labels = realm_labels({it.realm for it in report.sample})
            sample = [(labels[it.realm], it.type, it.id, time_text(it.created_at)) for it in report.sample]
            print_table(["realm", "type", "id", "created at"], sample, title="Would be deleted (a sample)")
    failed_if(report.failures)


@click.command("check")
@in_realms
@click.option("--stream", is_flag=True, help="Also compare the streamed set with the walk.")
@supersede
@as_json
@click.pass_obj
def check_command(settings: Settings, realms: Sequence[str], stream: bool, supersede: str | None, json_output: bool) -> None:
    """Walk everything that must stay and check that it exists; with --stream, also compare the streamed set."""
    from headwater.streaming.reachability.retained_identifiers import installed_identifiers
    from headwater.streaming.runs.realm_sets import instances_to_maintain
    from headwater.streaming.runs.runs import Runs
    from headwater.streaming.sweep.verify import verify_realm
    from headwater.wiring.sweeps import quiet_spark, streamed_source

    with the_store(settings) as store:
        instances = instances_to_maintain(store, realms)
        streamed = streamed_source(settings, quiet_spark(settings)) if stream else None
        with Runs(store.backend, store.clock).run("check", supersede=supersede) as run:
            reports = [
                verify_realm(store.backend, instance, store.clock, installed_identifiers(), streamed) for instance in instances
            ]
            run.record.failures = [f"{it.realm}: {_what_is_wrong(it)}" for it in reports if not it.holds]
    if json_output:
        print_json({"run": run.record.id, "holds": all(it.holds for it in reports), "realms": reports})
    else:
        columns = ["realm", "pointers", "must stay", "by stream", "rows", "nothing reaches", "missing"]
        labels = realm_labels(it.realm for it in reports)
        rows = [
            (labels[it.realm], it.pointers, it.walked, it.streamed, it.scanned, it.unreached, it.missing_count)
            for it in reports
        ]
        print_table(columns, rows)
    failed_if(run.record.failures)


def _what_is_wrong(report: Any) -> str:
    if report.failure:
        return str(report.failure)
    if report.missing_count:
        return f"{report.missing_count} objects that must stay are not there: {report.missing}"
    return f"walk and stream differ: only walked {report.only_walked}, only streamed {report.only_streamed}"


@click.command("retained")
@in_realms
@click.option("--follow", is_flag=True, help="Continue until interrupted.")
@click.option("--reseed", is_flag=True, help="Discard the set and seed it again by a walk.")
@click.option("--batch", type=click.IntRange(1), default=100_000, show_default=True, help="Changes per batch.")
@click.option("--kafka", is_flag=True, help="Read the realms' topics (setting kafka_bootstrap), not the store's log.")
@as_json
@click.pass_obj
def retained_command(
    settings: Settings, realms: Sequence[str], follow: bool, reseed: bool, batch: int, kafka: bool, json_output: bool
) -> None:
    """Update the retained sets from the log, on Spark, each change exactly once.

    With --kafka the set of ::system::, which is never published, is still read from the store's log.

    A set holds unread history back for a week at most; if it is overtaken or damaged, it is seeded again by a walk.
    """
    from headwater.schemas.errors import InvalidInput
    from headwater.streaming.runs.realm_sets import instances_to_maintain
    from headwater.wiring.sweeps import claim_sets, quiet_spark

    states = []
    with the_store(settings) as store:
        instances = instances_to_maintain(store, realms)
        if follow and len(instances) != 1:
            raise InvalidInput("one realm at a time can be followed.", field="--realm", remedy="Name one with --realm.")
        claim_sets(settings, store)
        client, published = None, set[str]()
        if kafka:
            from headwater.wiring.kafka_readers import checked_client

            client = checked_client(settings)
            client.java()
            published = _require_published(store, instances)
        spark = quiet_spark(settings)
        from headwater.streaming.retained.retained_store import RetainedStore
        from headwater.streaming.sources.kafka_changes import KafkaOptions
        from headwater.streaming.spark_jobs.retained_job import RetainedJob

        with progress_bar() as bar:
            for instance in instances:
                job = RetainedJob(spark, store, settings.store, RetainedStore(settings.maintenance_dir, instance))

                def report(progress: dict[str, Any]) -> None:
                    bar.add("changes", int(progress["numInputRows"]))

                try:
                    if client is not None and instance in published:
                        topic = KafkaOptions(
                            bootstrap=client.bootstrap,
                            realm_instance=instance,
                            store=settings.store,
                            records_per_batch=batch,
                            client=client.java(),
                        )
                        state = job.run_kafka(topic, follow=follow, report=report)
                    else:
                        stopping = (lambda: False) if follow else None
                        state = job.run(changes_per_batch=batch, reseed=reseed, is_stopping=stopping, report=report)
                except KeyboardInterrupt:
                    state = job.state()
                states.append((instance, state))
    views = [
        {"realm": instance, "step": it.number, "pointers": len(it.positions), "segments": len(it.bounds), "rows": it.rows}
        for instance, it in states
    ]
    if json_output:
        print_json({"realms": views})
    else:
        print_table(["realm", "step", "pointers", "segments", "rows"], [list(view.values()) for view in views])


def _require_published(store: Store, instances: Sequence[str]) -> set[str]:
    """All but `::system::`, which is never published and is read from the store's log."""
    from headwater.persistence.rows import SYSTEM_REALM, realm_name_of
    from headwater.producer.publisher.assignment.generations import Generations
    from headwater.schemas.errors import NotFound

    published = {generation.realm for generation in Generations(store.backend, store.clock).list()}
    for instance in instances:
        if instance not in (SYSTEM_REALM, *published):
            raise NotFound(
                f"the realm {realm_name_of(instance)!r} was never published to Kafka.",
                field="realm",
                remedy="Run `headwater publish`, name other realms with --realm, or leave --kafka out.",
            )
    return published


COMMANDS = (sweep_command, check_command, retained_command)
"""What the group `maintain` adds."""


def print_counts(counts: CountsByRealm) -> None:
    columns = ["realm", "type", "scanned", "retained", "newer", "purged", "failed", "would be purged"]
    labels = realm_labels(counts)
    rows = [
        (labels[realm], name, it.scanned, it.retained, it.newer, it.purged, it.failed, it.would_purge)
        for realm, by_type in sorted(counts.items())
        for name, it in sorted(by_type.items())
    ]
    print_table(columns, rows)
