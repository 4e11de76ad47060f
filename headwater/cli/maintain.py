"""`headwater maintain`: realms and rules enter; floors rise, garbage goes, sets are checked, and each run is on record."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import rich_click as click

from headwater.cli import maintain_archive, maintain_sweep
from headwater.cli.maintain_output import (
    dry_run,
    failed_if,
    in_realms,
    merged_failures,
    progress_bar,
    supersede,
)
from headwater.cli.opened import opened
from headwater.cli.output import as_json, print_json, print_table
from headwater.settings import Settings

SECONDS_END = len("2026-01-31T12:00:00")


@click.group()
def command() -> None:
    """Expire history, sweep what nothing reaches, purge realms, and see what was done.

    One operation works at a time in a store. Nothing that a kept state needs is ever deleted.
    """


@command.command()
@in_realms
@click.option("--keep", metavar="RULES", help="E.g. 'cat/*/heads/main=90d, *=30d+100n'; the setting `retention`, if left out.")
@dry_run
@supersede
@as_json
@click.pass_obj
def expire(
    settings: Settings, realms: Sequence[str], keep: str | None, dry_run: bool, supersede: str | None, json_output: bool
) -> None:
    """Raise the floors: what is older than the rules keep leaves the feed, and is garbage for the next sweep.

    Nothing passes what a subscription, the publisher, a registered job or a live branch still needs.
    """
    from headwater.streaming.expire import Expiry
    from headwater.streaming.policies import parse_retention
    from headwater.streaming.realm_sets import instances_to_maintain
    from headwater.streaming.runs import Runs

    rules = parse_retention(settings.retention if keep is None else keep)
    with opened(settings) as store, progress_bar() as bar:
        instances = instances_to_maintain(store, realms)
        reports = []
        with Runs(store.backend, store.clock).run("expire", dry_run=dry_run, supersede=supersede) as run:
            for instance in instances:
                run.check()
                expiry = Expiry(store.kernel(instance), rules)
                reports.append(expiry.run(dry_run=dry_run, on_pointer=lambda _: bar.add("pointers", 1)))
            run.record.failures = [f"{it.pointer}: {it.failure}" for report in reports for it in report.failures]
    if json_output:
        print_json({"run": run.record.id, "dry_run": dry_run, "realms": reports})
    else:
        rows = [
            (report.realm, it.pointer, it.floor_before, it.floor_after, it.head_seq, it.held_by or it.failure)
            for report in reports
            for it in report.pointers
            if it.expired or it.held_by or it.failure
        ]
        print_table(["realm", "pointer", "floor", "new floor", "head", "held by"], rows)
        click.echo(f"{sum(report.expired for report in reports)} entries {'would expire' if dry_run else 'expired'}")
    failed_if(run.record.failures)


@command.command("purge-realms")
@click.argument("names", nargs=-1)
@click.option("--unlisted", is_flag=True, help="Also rows of realm instances that no list names any more.")
@click.option("--catalogs", is_flag=True, help="Also dropped catalogs of all realms whose history is old enough.")
@click.option("--catalog-age", metavar="DAYS", type=click.FloatRange(0), default=30.0, show_default=True, help="That is, days.")
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
    dry_run: bool,
    supersede: str | None,
    json_output: bool,
) -> None:
    """Delete the data of realms that are PURGING, all or the named ones; they are PURGED when a scan finds nothing."""
    from headwater.streaming.purge import CatalogPurge, PurgedRealm, purge_realms, purge_unlisted, unlisted_instances
    from headwater.streaming.realm_sets import realm_sets, realms_to_purge
    from headwater.streaming.retained_store import RetainedStore
    from headwater.streaming.runs import Runs

    purged: list[PurgedRealm] = []
    dropped = []
    with opened(settings) as store:
        realms = realms_to_purge(store, names)
        with Runs(store.backend, store.clock).run("purge-realms", dry_run=dry_run, supersede=supersede) as run:
            if dry_run:
                purged = [PurgedRealm(realm=it.name, instance=it.instance, listed=True) for it in realms]
                orphans = unlisted_instances(store) if unlisted else []
                purged += [PurgedRealm(realm=it.partition("#")[0], instance=it, listed=False) for it in orphans]
            else:
                purged = purge_realms(store, realms, before_each=run.check)
                purged += purge_unlisted(store, before_each=run.check) if unlisted else []
            for realm in realm_sets(store).retain if catalogs else []:
                purge = CatalogPurge(store.kernel(realm.instance), age_seconds=int(catalog_age * 86_400))
                dropped += purge.run(dry_run=dry_run)
            run.record.failures = [f"{it.instance}: {it.failure}" for it in purged if it.failure]
            for gone in purged if not dry_run else []:
                if not gone.failure:
                    RetainedStore(settings.maintenance_dir, gone.instance).clear()
    if json_output:
        print_json({"run": run.record.id, "dry_run": dry_run, "realms": purged, "catalogs": dropped})
    else:
        print_table(
            ["realm", "instance", "listed", "rows", "failure"],
            [(it.realm, it.instance, it.listed, it.deleted, it.failure) for it in purged],
        )
        if catalogs:
            print_table(
                ["realm", "catalog", "id", "pointers", "waits"],
                [(it.realm, it.name, it.catalog_id, it.pointers, it.waiting) for it in dropped],
            )
    failed_if(run.record.failures)


@command.command()
@click.option(
    "--every", metavar="HOURS", type=click.FloatRange(0, min_open=True), default=6.0, show_default=True, help="Cadence."
)
@click.option("--once", is_flag=True, help="One cycle, now.")
@as_json
@click.pass_obj
def schedule(settings: Settings, every: float, once: bool, json_output: bool) -> None:
    """Expire, purge and sweep all realms in the background, on a cadence, until it is interrupted."""
    from headwater.streaming.schedule import ScheduleOptions, run_cycle

    options = ScheduleOptions(every_seconds=every * 3_600, retention=settings.retention)
    with opened(settings) as store:
        while True:
            report = run_cycle(store, options)
            if json_output:
                print_json(report)
            else:
                click.echo(
                    f"{report.expired} entries expired, {report.realms_purged} realms, {report.catalogs_purged} catalogs "
                    f"and {report.rows_purged} rows purged"
                )
            if once:
                break
            merged_failures(report.failures)
            store.clock.sleep(options.every_seconds)
    failed_if(report.failures if once else [])


@command.command()
@click.argument("run_id", required=False)
@as_json
@click.pass_obj
def runs(settings: Settings, run_id: str | None, json_output: bool) -> None:
    """Show the last runs, or one of them by realm and type."""
    from headwater.schemas.errors import InvalidInput
    from headwater.streaming.runs import Runs

    with opened(settings) as store:
        records = Runs(store.backend, store.clock).list()
    if run_id is not None:
        found = [record for record in records if record.id == run_id]
        if not found:
            raise InvalidInput(f"there is no run {run_id!r}.", field="run", remedy="`headwater maintain runs` lists them.")
        if json_output:
            print_json(found[0])
        else:
            maintain_sweep.print_counts(found[0].counts)
            merged_failures(found[0].failures)
        return
    if json_output:
        print_json({"runs": records})
        return
    columns = ["run", "operation", "status", "started", "scanned", "retained", "newer", "purged", "failed"]
    rows = []
    for record in records:
        total = msgspec.structs.asdict(record.totals())
        counted = [total[name] for name in ("scanned", "retained", "newer", "purged", "failed")]
        operation = f"{record.operation} (dry run)" if record.dry_run else record.operation
        rows.append((record.id, operation, record.status, f"{record.started[:SECONDS_END]}Z", *counted))
    print_table(columns, rows)


for _other in (*maintain_sweep.COMMANDS, *maintain_archive.COMMANDS):
    command.add_command(_other)
