"""`headwater maintain`: expires history, purges realms, and shows past runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec
import rich_click as click

from headwater.cli.maintenance import (
    maintain_archive,
    maintain_files,
    maintain_schedule,
    maintain_snapshots,
    maintain_sweep,
)
from headwater.cli.maintenance.maintain_output import (
    Amount,
    dry_run,
    failed_if,
    in_realms,
    merged_failures,
    progress_bar,
    realm_labels,
    supersede,
)
from headwater.cli.output import as_json, confirmed, echo, print_json, print_table, yes
from headwater.cli.target import the_store
from headwater.settings import Settings

if TYPE_CHECKING:
    from headwater.streaming.expire.expire import ExpiredPointer, ExpireReport
    from headwater.streaming.runs.run_counts import Counts
    from headwater.streaming.runs.runs import RunRecord

SECONDS_END = len("2026-01-31T12:00:00")


@click.group()
def command() -> None:
    """Expire history, sweep unreachable objects, purge realms, and show what was done.

    One operation runs at a time in a store. Nothing that a retained state needs is ever deleted.
    """


@command.command()
@in_realms
@click.option("--keep", metavar="RULES", help="E.g. 'cat/*/heads/main=90d, *=30d+100n'. Default: the setting `retention`.")
@click.option("--explain", is_flag=True, help="Show what every policy and rule keeps of each pointer, and change nothing.")
@dry_run
@yes
@supersede
@as_json
@click.pass_obj
def expire(
    settings: Settings,
    realms: Sequence[str],
    keep: str | None,
    explain: bool,
    dry_run: bool,
    yes: bool,
    supersede: str | None,
    json_output: bool,
) -> None:
    """Raise the floors: entries older than the rules keep leave the feed and become garbage for the next sweep.

    Policies of the type `retention` decide; RULES apply to pointers without one. No floor passes what a subscription, the
    publisher, a registered reader or a live branch still needs.
    """
    from headwater.streaming.expire.expire import expire_realms
    from headwater.streaming.expire.retention import parse_retention
    from headwater.streaming.runs.realm_sets import instances_to_maintain
    from headwater.streaming.runs.runs import Runs

    dry_run = dry_run or explain
    text = settings.retention if keep is None else keep
    rules = parse_retention(text)
    with the_store(settings) as store, progress_bar() as bar:
        instances = instances_to_maintain(store, realms)
        if not dry_run:
            confirmed(f"Expire history that no policy keeps, nor {text!r} where there is none, for good?", yes)
        with Runs(store.backend, store.clock).run("expire", dry_run=dry_run, supersede=supersede) as run:
            reports = expire_realms(store, run, instances, rules, on_pointer=lambda _: bar.add("pointers", 1))
    if json_output:
        print_json({"run": run.record.id, "dry_run": dry_run, "realms": reports})
    elif explain:
        _explain(reports)
    else:
        labels = realm_labels(report.realm for report in reports)
        rows = [
            (labels[report.realm], it.pointer, it.floor_before, it.floor_after, it.head_seq, it.held_by or it.failure)
            for report in reports
            for it in report.pointers
            if it.expired or it.held_by or it.failure
        ]
        print_table(["realm", "pointer", "floor", "new floor", "head", "held by"], rows)
        echo(f"{sum(report.expired for report in reports)} entries {'would expire' if dry_run else 'expired'}")
    failed_if(run.record.failures)


def _explain(reports: Sequence[ExpireReport]) -> None:
    """A line for each rule of each pointer; of those of one pointer the first decides, unless somebody holds the floor."""
    labels = realm_labels(report.realm for report in reports)
    rows = [
        (labels[report.realm], it.pointer, it.floor_before, one.floor, it.head_seq, one.keeps, _decides(it, number, one.source))
        for report in reports
        for it in report.pointers
        for number, one in enumerate(it.allowed)
    ]
    print_table(["realm", "pointer", "floor", "allowed", "head", "keeps", "by"], rows)


def _decides(pointer: ExpiredPointer, number: int, source: str) -> str:
    if number:
        return source
    return f"{source} (decides)" if not pointer.held_by else f"{source} (held at {pointer.floor_after} by {pointer.held_by})"


@command.command("purge-realms")
@click.argument("names", nargs=-1)
@click.option("--unlisted", is_flag=True, help="Also rows of realm instances that no list names any more.")
@click.option("--catalogs", is_flag=True, help="Also dropped catalogs of all realms whose history is old enough.")
@click.option(
    "--catalog-age", metavar="DAYS", type=Amount(0), default=30.0, show_default=True, help="Age of that history, in days."
)
@click.option("--keep-topics", is_flag=True, help="Leave the realms' topics in Kafka until their retention ends.")
@click.option("--spark", "use_spark", is_flag=True, help="Scan and delete on Spark's workers (Cassandra) instead of threads.")
@click.option("--files", is_flag=True, help="Also the files below their claimed storage roots that nothing else needs.")
@dry_run
@supersede
@as_json
@click.pass_obj
def purge_realms_command(
    settings: Settings,
    names: Sequence[str],
    unlisted: bool,
    catalogs: bool,
    catalog_age: float,
    keep_topics: bool,
    use_spark: bool,
    files: bool,
    dry_run: bool,
    supersede: str | None,
    json_output: bool,
) -> None:
    """Delete the data of realms that are PURGING, all or the named ones; they are PURGED when a scan finds nothing.

    Their Kafka topics and retained sets are deleted too; archives stay, and so do the tables' files unless --files is given.
    """
    from headwater.schemas.errors import InvalidInput
    from headwater.streaming.purge.purge import purge_all
    from headwater.streaming.runs.realm_sets import realms_to_purge
    from headwater.streaming.runs.runs import Runs
    from headwater.wiring.external_resources import external_resources
    from headwater.wiring.maintenance import doomed_files
    from headwater.wiring.sweeps import opened_purge_scan

    with the_store(settings) as store:
        if use_spark and store.backend.abilities.can_delete_realms:
            raise InvalidInput(f"{store.backend.name} deletes realms by itself.", field="--spark", remedy="Leave it out.")
        realms = realms_to_purge(store, names)
        belongings = external_resources(store, settings, keep_topics=keep_topics)
        doomed = doomed_files(store, settings)
        belongings += [doomed] if files else []
        for kind in belongings:
            kind.check([realm.instance for realm in realms])
        with (
            Runs(store.backend, store.clock).run("purge-realms", dry_run=dry_run, supersede=supersede) as run,
            opened_purge_scan(settings, store, run, on_spark=use_spark and not dry_run) as scan,
        ):
            done = purge_all(
                store,
                run,
                realms=realms,
                unlisted=unlisted,
                catalogs=catalogs,
                belongings=belongings,
                catalog_age_seconds=int(catalog_age * 86_400),
                before_catalog=doomed.remove_catalog if files else lambda _realm, _catalog: None,
                scan=scan,
            )
    if json_output:
        print_json({"run": run.record.id, "dry_run": dry_run, "realms": done.realms, "catalogs": done.catalogs})
    else:
        print_table(
            ["realm", "instance", "listed", "rows", "failure"],
            [(it.realm, it.instance, it.listed, it.deleted, it.failure) for it in done.realms],
        )
        if catalogs:
            print_table(
                ["realm", "catalog", "id", "pointers", "waits"],
                [(it.realm, it.name, it.catalog_id, it.pointers, it.waiting) for it in done.catalogs],
            )
    failed_if(run.record.failures)


@command.command()
@click.argument("run_id", required=False)
@as_json
@click.pass_obj
def runs(settings: Settings, run_id: str | None, json_output: bool) -> None:
    """Show the last runs, or one run by realm and type."""
    from headwater.schemas.errors import InvalidInput
    from headwater.streaming.runs.runs import Runs

    with the_store(settings) as store:
        records = Runs(store.backend, store.clock).list()
    if run_id is not None:
        found = [record for record in records if record.id == run_id]
        if not found:
            raise InvalidInput(f"there is no run {run_id!r}.", field="run", remedy="`headwater maintain runs` lists them.")
        if json_output:
            print_json(found[0])
        else:
            print_run(found[0])
        return
    if json_output:
        print_json({"runs": records})
        return
    rows = []
    for record in records:
        operation = f"{record.operation} (dry run)" if record.dry_run else record.operation
        shown = f"{record.id}\n{record.started[:SECONDS_END]}Z"
        rows.append((shown, operation, record.status, _counted(record.totals())))
    print_table(["run", "operation", "status", "rows"], rows)


def print_run(record: RunRecord) -> None:
    """What there is to know of one run; an expiry counts no rows."""
    ended = f"ended {record.finished[:SECONDS_END]}Z" if record.finished else "is at work"
    operation = f"{record.operation} (dry run)" if record.dry_run else record.operation
    echo(f"{operation}: {record.status}, begun {record.started[:SECONDS_END]}Z, {ended}")
    if record.counts:
        maintain_sweep.print_counts(record.counts)
    for realm, why in record.skipped.items():
        echo(f"{realm} was skipped: {why}")
    merged_failures(record.failures)


def _counted(counts: Counts) -> str:
    """What there is, in words that may be wrapped and never cut: `29 scanned, 20 retained, 9 purged`."""
    found = msgspec.structs.asdict(counts).items()
    return ", ".join(f"{count} {name.replace('would_purge', 'would be purged')}" for name, count in found if count)


for _module in (maintain_sweep, maintain_schedule, maintain_archive, maintain_files, maintain_snapshots):
    for _other in _module.COMMANDS:
        command.add_command(_other)
