"""`headwater maintain files tasks`: what tables dropped with PURGE wait for, and the deletion of their files."""

from __future__ import annotations

import msgspec
import rich_click as click

from headwater.cli.maintenance.maintain_output import (
    dry_run,
    failed_if,
    print_file_groups,
    progress_bar,
    realm_labels,
    supersede,
)
from headwater.cli.maintenance.maintain_purge_files import limits, operations_of, with_options
from headwater.cli.output import as_json, print_json, print_table
from headwater.cli.target import the_store
from headwater.schemas.errors import InvalidInput
from headwater.settings import Settings


@click.command("tasks")
@click.option("--run", "run_them", is_flag=True, help="Delete the files of tables that nothing holds any more.")
@click.option("--registered", is_flag=True, help="Also of tables that were registered. Default: the setting purge_registered.")
@click.option(
    "--forget-history",
    metavar="TABLE",
    help="Give up the history of this dropped table, and delete its files now. TABLE is its name or the id of its task.",
)
@click.option("--author", metavar="NAME", help="Who gives the history up. Default: you.")
@limits
@dry_run
@supersede
@as_json
@click.pass_obj
def tasks_command(
    settings: Settings,
    run_them: bool,
    registered: bool,
    forget_history: str | None,
    author: str | None,
    batch: int | None,
    files_per_second: float | None,
    batches_per_second: float | None,
    dry_run: bool,
    supersede: str | None,
    json_output: bool,
) -> None:
    """Show the tables that were dropped with PURGE and what their files wait for; with --run, delete those that nothing needs.

    Exit code 1 means that files could not be deleted, or that the table whose history was to be given up is still needed.
    """
    from headwater.embedded import commit_meta
    from headwater.persistence.realms.realm_states import RealmStatus
    from headwater.producer.immediate_tasks import ImmediateTasks
    from headwater.streaming.files.sweep.file_sweep import FILES_LEASE, LEASE_SECONDS
    from headwater.streaming.files.tasks.forgetting import named_task
    from headwater.streaming.files.tasks.task_purge import TaskPurge, TaskReport
    from headwater.streaming.runs.realm_sets import all_realms
    from headwater.streaming.runs.runs import Runs
    from headwater.wiring.maintenance import task_options

    options = with_options(
        task_options(settings),
        batch_size=batch,
        files_per_second=files_per_second,
        batches_per_second=batches_per_second,
        registered=registered or None,
        dry_run=dry_run,
    )
    if forget_history is not None and not (run_them or dry_run):
        raise InvalidInput("nothing is run.", field="--forget-history", remedy="Add --run, or --dry-run to look first.")
    failures: list[str] = []
    with the_store(settings) as store, progress_bar() as bar:
        if run_them or dry_run:
            if forget_history is not None:
                forget = named_task(store, forget_history, commit_meta(author).author)
                options = msgspec.structs.replace(options, forget=forget)
            runs = Runs(store.backend, store.clock, lease_seconds=LEASE_SECONDS, lease_key=FILES_LEASE)
            with runs.run("files-purge", dry_run=dry_run, supersede=supersede) as run:
                reports = TaskPurge(store, operations_of(settings), options, on_progress=bar.add).run(run)
                failures = list(run.record.failures)
            if forget_history is not None:
                failures += [f"{forget_history}: {one}" for report in reports for one in report.task.held_by]
        else:
            active = [realm.instance for realm in all_realms(store) if realm.status is RealmStatus.ACTIVE]
            found = ((realm, task) for realm in active for task in ImmediateTasks(store.kernel(realm)).all())
            reports = [TaskReport(realm=realm, task=task) for realm, task in found]
    if json_output:
        print_json({"tasks": reports})
    else:
        labels = realm_labels(it.realm for it in reports)
        columns = ["realm", "table", "state", "held by", "would be purged", "purged", "missing", "spared", "failed"]
        rows = [
            (
                labels[it.realm],
                ".".join(it.task.key),
                it.task.state,
                ", ".join(it.task.held_by),
                it.would_purge,
                it.task.purged,
                it.task.missing,
                it.task.spared,
                it.task.failed,
            )
            for it in reports
        ]
        print_table(columns, rows)
        if dry_run:
            print_file_groups(group for it in reports for group in it.sample)
    failed_if(failures)
