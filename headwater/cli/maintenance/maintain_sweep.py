"""`headwater maintain sweep`, `verify` and `retained`: deletes garbage, or checks what must stay."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
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
from headwater.settings import Settings
from headwater.wiring.stores import opened_store

if TYPE_CHECKING:
    from headwater.persistence.store import Store
    from headwater.streaming.reachability.fence import FencedRealm
    from headwater.streaming.retained.retained_sources import RetainedSource
    from headwater.streaming.runs.runs import CountsByRealm
    from headwater.streaming.sweep.executors import SweepExecutor

by_stream = click.option("--stream", is_flag=True, help="Take what must stay from the streamed set, not by walking.")
on_spark = click.option("--spark", "use_spark", is_flag=True, help="Mark, scan and delete on Spark's workers, not on threads.")


@click.command("sweep")
@in_realms
@click.option("--grace", metavar="SECONDS", type=Amount(), default=10_800.0, show_default=True, help="Younger objects stay.")
@click.option("--filter", "filter_kind", type=click.Choice(["exact", "bloom"]), default="exact", show_default=True, help="How.")
@by_stream
@on_spark
@click.option("--splits", type=click.IntRange(1, 100_000), default=16, show_default=True, help="Shares of the table.")
@click.option("--threads", type=click.IntRange(1, 256), default=4, show_default=True, help="Without --spark.")
@click.option("--rows-per-second", type=Amount(0), default=0.0, help="Limit of rows scanned; none if left out.")
@click.option("--deletes-per-second", type=Amount(0), default=0.0, help="Limit of rows deleted; none if left out.")
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
    """Delete what no kept state reaches and is older than the grace.

    A realm that fails is left as it is while the others go on; exit code 1 says that something is left for the next run.
    """
    from headwater.schemas.entry_ids import time_text
    from headwater.streaming.reachability.retained_identifiers import installed_identifiers
    from headwater.streaming.runs.realm_sets import instances_to_maintain
    from headwater.streaming.runs.runs import Runs
    from headwater.streaming.sweep.sweep import Sweep, SweepOptions, check_grace

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
    with opened_store(settings) as store:
        instances = instances_to_maintain(store, realms)
        spark = _spark(settings) if stream or use_spark else None
        identifiers = installed_identifiers()
        with progress_bar() as bar:
            sweep = Sweep(
                store,
                _caught_up(settings, store, spark) if stream else _source(settings, store, spark, identifiers, by_stream=False),
                _executor(settings, store, spark if use_spark else None, threads),
                identifiers,
                options,
                on_progress=bar.add,
                on_swept=_compacting(settings, spark) if stream else lambda _: None,
            )
            runs = Runs(store.backend, store.clock)
            with runs.run("sweep", dry_run=dry_run, supersede=supersede) as run:
                report = sweep.run(runs, run, instances)
    if json_output:
        print_json({"run": run.record.id, "dry_run": dry_run, **msgspec.to_builtins(report)})
    else:
        print_counts(report.counts)
        for realm, why in report.skipped.items():
            echo(f"{realm} was skipped: {why}")
        if dry_run:
            labels = realm_labels({it.realm for it in report.sample})
            sample = [(labels[it.realm], it.type, it.id, time_text(it.created_at)) for it in report.sample]
            print_table(
                ["realm", "type", "id", "created at"], sample, title="Would go, among others", whole=["id", "created at"]
            )
    failed_if(report.failures)


@click.command("verify")
@in_realms
@click.option("--stream", is_flag=True, help="Also compare the streamed set with what walking finds.")
@supersede
@as_json
@click.pass_obj
def verify_command(settings: Settings, realms: Sequence[str], stream: bool, supersede: str | None, json_output: bool) -> None:
    """Walk all that must stay and see that it is there; with --stream, compare the streamed set with it, object by object."""
    from headwater.streaming.reachability.retained_identifiers import installed_identifiers
    from headwater.streaming.runs.realm_sets import instances_to_maintain
    from headwater.streaming.runs.runs import Runs
    from headwater.streaming.sweep.verify import verify_realm

    with opened_store(settings) as store:
        instances = instances_to_maintain(store, realms)
        streamed = _source(settings, store, _spark(settings), installed_identifiers(), by_stream=True) if stream else None
        with Runs(store.backend, store.clock).run("verify", supersede=supersede) as run:
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
@click.option("--follow", is_flag=True, help="Go on until it is interrupted.")
@click.option("--reseed", is_flag=True, help="Discard the set and seed it again by walking.")
@click.option("--batch", type=click.IntRange(1), default=100_000, show_default=True, help="Changes at once.")
@click.option("--kafka", is_flag=True, help="Read the realm's topic (setting kafka_bootstrap), not the store's log.")
@as_json
@click.pass_obj
def retained_command(
    settings: Settings, realms: Sequence[str], follow: bool, reseed: bool, batch: int, kafka: bool, json_output: bool
) -> None:
    """Bring the set of what must stay up to the log, on Spark, each change exactly once.

    It holds history back until it has read it, for a week at most; overtaken or damaged, it is seeded again by walking.
    """
    from headwater.schemas.errors import InvalidInput
    from headwater.streaming.runs.realm_sets import instances_to_maintain

    states = []
    with opened_store(settings) as store:
        instances = instances_to_maintain(store, realms)
        if follow and len(instances) != 1:
            raise InvalidInput("one realm at a time can be followed.", field="--realm", remedy="Name one with --realm.")
        if kafka and not settings.kafka_bootstrap:
            raise InvalidInput("no Kafka is named.", field="--kafka", remedy="Set kafka_bootstrap to host:port.")
        spark = _spark(settings)
        from headwater.streaming.retained.retained_store import RetainedStore
        from headwater.streaming.sources.kafka_changes import KafkaOptions
        from headwater.streaming.spark_jobs.retained_job import RetainedJob

        with progress_bar() as bar:
            for instance in instances:
                job = RetainedJob(spark, store, settings.store, RetainedStore(settings.maintenance_dir, instance))

                def report(progress: dict[str, Any]) -> None:
                    bar.add("changes", int(progress["numInputRows"]))

                try:
                    if kafka:
                        topic = KafkaOptions(
                            bootstrap=settings.kafka_bootstrap,
                            realm_instance=instance,
                            store=settings.store,
                            records_per_batch=batch,
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


COMMANDS = (sweep_command, verify_command, retained_command)
"""What the group `maintain` adds."""


def print_counts(counts: CountsByRealm) -> None:
    columns = ["realm", "type", "scanned", "retained", "newer", "purged", "failed", "would go"]
    labels = realm_labels(counts)
    rows = [
        (labels[realm], name, it.scanned, it.retained, it.newer, it.purged, it.failed, it.would_purge)
        for realm, by_type in sorted(counts.items())
        for name, it in sorted(by_type.items())
    ]
    print_table(columns, rows, whole=columns[2:])


def _spark(settings: Settings) -> Any:
    """What goes wrong is told in one line at the end, not by the JVM's stacks."""
    from headwater.wiring.spark import open_spark

    spark = open_spark(settings)
    spark.sparkContext.setLogLevel("OFF")
    return spark


def _source(settings: Settings, store: Store, spark: Any, identifiers: Any, *, by_stream: bool) -> RetainedSource:
    """Walking is done where the sweep is: on threads here, or on Spark's workers."""
    if spark is None:
        from headwater.streaming.retained.retained_sources import WalkedSource

        return WalkedSource(store.backend, identifiers)
    if by_stream:
        from headwater.streaming.spark_jobs.retained_rows import StreamedSource

        return StreamedSource(spark, settings.maintenance_dir)
    from headwater.streaming.spark_jobs.spark_walk import SparkWalkedSource

    return SparkWalkedSource(spark, settings.store)


def _caught_up(settings: Settings, store: Store, spark: Any) -> RetainedSource:
    """The streamed set, brought up to the heads that the fence yields: writers that go on are always ahead of it."""
    from headwater.streaming.retained.catch_up_source import CatchUpSource
    from headwater.streaming.retained.retained_store import RetainedStore
    from headwater.streaming.spark_jobs.retained_job import RetainedJob
    from headwater.streaming.spark_jobs.retained_rows import StreamedSource

    def catch_up(realm: str) -> None:
        RetainedJob(spark, store, settings.store, RetainedStore(settings.maintenance_dir, realm)).run()

    return CatchUpSource(StreamedSource(spark, settings.maintenance_dir), catch_up)


def _compacting(settings: Settings, spark: Any) -> Callable[[FencedRealm], None]:
    """What the sweep has proved complete is made smaller; a set that grew meanwhile is left for the next time."""
    from headwater.schemas.errors import RetainedMoved
    from headwater.streaming.retained.retained_store import RetainedStore
    from headwater.streaming.spark_jobs.retained_rows import compact

    def compact_one(fenced: FencedRealm) -> None:
        floors = {pointer: span.floor for pointer, span in fenced.spans.items()}
        with contextlib.suppress(RetainedMoved):
            compact(spark, RetainedStore(settings.maintenance_dir, fenced.realm), floors)

    return compact_one


def _executor(settings: Settings, store: Store, spark: Any, threads: int) -> SweepExecutor:
    if spark is None:
        from headwater.streaming.sweep.executors import LocalExecutor

        return LocalExecutor(store.backend, threads)
    from headwater.streaming.spark_jobs.spark_executor import SparkExecutor

    return SparkExecutor(spark, settings.store, store.backend)
