"""`headwater maintain files undo`: brings back the files that a run has deleted, where the storage has kept them."""

from __future__ import annotations

import rich_click as click

from headwater.cli.maintenance.maintain_output import dry_run, failed_if, progress_bar, supersede
from headwater.cli.maintenance.maintain_purge_files import operations_of
from headwater.cli.output import as_json, print_json, print_table
from headwater.cli.target import the_store
from headwater.settings import Settings


@click.command("undo")
@click.argument("run_id", metavar="RUN")
@dry_run
@supersede
@as_json
@click.pass_obj
def undo_command(settings: Settings, run_id: str, dry_run: bool, supersede: str | None, json_output: bool) -> None:
    """Restore the files that RUN, a sweep or purge of the last 30 days, has deleted from versioned S3 buckets.

    Exit code 1 means that files could not be restored; the report says why. The next sweep treats restored files as new ones.
    """
    from headwater.streaming.files.sweep.file_sweep import FILES_LEASE, LEASE_SECONDS
    from headwater.streaming.files.sweep.roots import chosen, roots_of
    from headwater.streaming.files.sweep.store_marks import markable_realms
    from headwater.streaming.files.undo_run import UndoRun
    from headwater.streaming.runs.runs import Runs
    from headwater.wiring.maintenance import file_storage

    options = file_storage(settings)
    with the_store(settings) as store, progress_bar() as bar:
        roots = chosen(roots_of(store, markable_realms(store)), ())
        undoing = UndoRun(store, operations_of(settings), options, dry_run=dry_run, on_progress=bar.add)
        runs = Runs(store.backend, store.clock, lease_seconds=LEASE_SECONDS, lease_key=FILES_LEASE)
        with runs.run("files-undo", dry_run=dry_run, supersede=supersede) as run:
            reports = undoing.run(run, run_id, roots)
    if json_output:
        print_json({"run": run.record.id, "dry_run": dry_run, "roots": reports})
    else:
        rows = [(it.root, it.named, it.there, it.restored, it.lost) for it in reports]
        print_table(["root", "named", "there", "would return" if dry_run else "restored", "lost"], rows)
    failed_if([f"{it.root}: {it.lost} files are gone: {it.reason}" for it in reports if it.lost])
