"""`headwater maintain files`: shows the files that tables need and that are on storage, and deletes what no table needs."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

import msgspec
import rich_click as click

from headwater.cli.maintenance.maintain_file_tasks import tasks_command
from headwater.cli.maintenance.maintain_follow_files import follow_command
from headwater.cli.maintenance.maintain_output import (
    Amount,
    dry_run,
    failed_if,
    in_realms,
    print_file_groups,
    progress_bar,
    realm_labels,
    supersede,
)
from headwater.cli.maintenance.maintain_purge_files import limits, operations_of, purge_command, with_options
from headwater.cli.maintenance.maintain_undo_files import undo_command
from headwater.cli.maintenance.table_contents import content_of
from headwater.cli.output import as_json, echo, print_json, print_table
from headwater.cli.target import in_catalog, the_store
from headwater.schemas.errors import InvalidInput
from headwater.settings import Settings

if TYPE_CHECKING:
    from headwater.streaming.files.filters import FileFilter
    from headwater.streaming.files.kinds import FileKind

_LOCATION = re.compile(r"/|[A-Za-z][A-Za-z0-9+.-]*:/")

list_files = click.option("--list", "list_files", is_flag=True, help="Print every file, not only counts.")


@click.group()
def files() -> None:
    """Show the files of tables and views on object storage, and delete those that nothing needs.

    Storage access is configured by the setting `storage_options`, and otherwise by the environment.
    """


@files.command()
@click.argument("table")
@in_catalog
@click.option("--reference", default="main", show_default=True, help="The branch, tag or commit of TABLE.")
@click.option("--kind", type=click.Choice(["table", "view", "delta-table"]), help="What TABLE is, if it is a location.")
@click.option("--lenient", is_flag=True, help="Continue after files that cannot be read, and report them.")
@list_files
@as_json
@click.pass_obj
def identify(
    settings: Settings,
    table: str,
    realm: str,
    catalog: str,
    reference: str,
    kind: str | None,
    lenient: bool,
    list_files: bool,
    json_output: bool,
) -> None:
    """Show the files that TABLE references: a key such as shop.orders, or the location of a metadata file.

    Every snapshot counts: manifest lists, manifests, data and delete files, statistics and older metadata files.
    """
    from headwater.streaming.files.formats.reading import Fault, Mode

    if _LOCATION.match(table):
        location, kind = table, kind or "table"
    elif kind is not None:
        raise InvalidInput("the kind of a key is known.", field="--kind", remedy="Leave it out.")
    else:
        location, kind = content_of(settings, realm, catalog, reference, table)
    faults: list[Fault] = []
    found = operations_of(settings).identify(
        location, kind, Mode.LENIENT if lenient else Mode.STRICT, deduplicate=True, on_fault=faults.append
    )
    _show(((file.kind, file.size, file.location, file) for file in found), list_files, json_output)
    failed_if([f"{fault.location}: {fault.reason}" for fault in faults])


@files.command()
@click.argument("location")
@click.option("--like", metavar="PATTERN", help="Only locations that match, e.g. '*.parquet'.")
@click.option("--older-than", metavar="HOURS", type=Amount(min=0), help="Only files that were written at least this long ago.")
@list_files
@as_json
@click.pass_obj
def find(
    settings: Settings, location: str, like: str | None, older_than: float | None, list_files: bool, json_output: bool
) -> None:
    """Show the files below LOCATION, a folder or prefix. Kinds are inferred from the names of files."""
    from headwater.streaming.files.kinds import kind_by_name

    found = operations_of(settings).find(location, _filter(like, older_than))
    _show(((kind_by_name(file.location), file.size, file.location, file) for file in found), list_files, json_output)


@files.command()
@in_realms
@as_json
@click.pass_obj
def check(settings: Settings, realms: Sequence[str], json_output: bool) -> None:
    """Check that every file that a retained state of any branch or tag needs exists.

    It lists the catalogs' storage roots and looks up files elsewhere one by one. It changes nothing.
    """
    from headwater.persistence.rows import SYSTEM_REALM
    from headwater.streaming.files.watch.verify_files import verify_files
    from headwater.streaming.runs.realm_sets import instances_to_maintain

    operations = operations_of(settings)
    with the_store(settings) as store, progress_bar() as bar:
        instances = [instance for instance in instances_to_maintain(store, realms) if instance != SYSTEM_REALM]
        reports = [verify_files(store, instance, operations, bar.add) for instance in instances]
    if json_output:
        print_json({"holds": all(it.holds for it in reports), "realms": reports})
    else:
        labels = realm_labels(it.realm for it in reports)
        columns = ["realm", "contents", "files", "listed", "looked up", "missing", "unreadable", "given up"]
        rows = [
            (labels[it.realm], it.contents, it.files, it.listed, it.looked_for, it.missing, it.unreadable, it.forgotten)
            for it in reports
        ]
        print_table(columns, rows)
    failed_if([f"{it.realm}: {line}" for it in reports for line in it.damage])


in_roots = click.option(
    "--root", "roots", multiple=True, metavar="LOCATION", help="Only this storage root of a catalog; may be repeated."
)


@files.command()
@in_roots
@click.option("--force", is_flag=True, help="Also a root that another store has claimed. Asks first.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_obj
def claim(settings: Settings, roots: Sequence[str], force: bool, yes: bool) -> None:
    """Claim the storage roots of all catalogs for this store, so that `sweep` may delete files below them.

    A claim is the object `_headwater/root.json` below the root. Only one store may have tables there.
    """
    from headwater.persistence.rows import SYSTEM_REALM
    from headwater.streaming.files.sweep.claims import Claims
    from headwater.streaming.files.sweep.roots import chosen, roots_of
    from headwater.streaming.runs.realm_sets import instances_to_maintain

    with the_store(settings) as store:
        instances = [instance for instance in instances_to_maintain(store) if instance != SYSTEM_REALM]
        claims = Claims(store, operations_of(settings).storages)
        for root in chosen(roots_of(store, instances), roots):
            if not root.takes_claim and not roots:
                echo(f"{root.location} is left alone: its catalog has claim_root=refuse")
                continue
            there = claims.read(root)
            if force and there and not yes:
                owner = there[:500].decode("utf-8", "replace")
                click.confirm(f"{root.location} is claimed by {owner}. Take it for this store?", abort=True)
            record = claims.claim(root, force=force)
            echo(f"{root.location} is claimed for catalog {root.catalog}, generation {record.generation}")


@files.command()
@in_roots
@click.option("--grace", metavar="HOURS", type=Amount(), help="Younger files stay. Default: the setting files_grace_hours.")
@click.option(
    "--confirm",
    metavar="HOURS",
    type=Amount(0),
    help="Delete a file only if a run this long before found it unused too. Default: the setting files_confirm_hours.",
)
@click.option("--share", type=Amount(), help="Refuse to delete more than this share. Default: the setting files_share_max.")
@click.option("--expect-files", type=click.IntRange(0), metavar="N", help="Delete up to N files, whatever their share.")
@click.option(
    "--filter",
    "filter_kind",
    type=click.Choice(["exact", "bloom"]),
    help="Filter for the files in use. Default: the setting files_filter.",
)
@limits
@click.option("--spark", "use_spark", is_flag=True, help="Mark, list and delete on Spark's workers instead of in this process.")
@click.option("--master", metavar="URL", help="With --spark: run on this cluster. Default: the setting spark_master.")
@click.option(
    "--accept-missing",
    multiple=True,
    metavar="LOCATION",
    help="Give up what the table version with this metadata file has lost.",
)
@dry_run
@supersede
@as_json
@click.pass_obj
def sweep(
    settings: Settings,
    roots: Sequence[str],
    grace: float | None,
    confirm: float | None,
    share: float | None,
    expect_files: int | None,
    filter_kind: str | None,
    batch: int | None,
    files_per_second: float | None,
    batches_per_second: float | None,
    use_spark: bool,
    master: str | None,
    accept_missing: Sequence[str],
    dry_run: bool,
    supersede: str | None,
    json_output: bool,
) -> None:
    """Delete files below claimed storage roots that no retained state of any realm needs.

    The first run of a root only records what it would delete. Exit code 1 means that a root was refused or that files are
    missing.
    """
    from headwater.streaming.files.sweep.file_sweep import FILES_LEASE, LEASE_SECONDS, FileSweep, check_options
    from headwater.streaming.runs.runs import Runs
    from headwater.wiring.maintenance import opened_file_executor, sweep_options

    if master is not None and not use_spark:
        raise InvalidInput("a cluster was named.", field="--master", remedy="Add --spark, or leave it out.")
    settings = msgspec.structs.replace(settings, spark_master=master or settings.spark_master)
    options = with_options(
        sweep_options(settings),
        grace_hours=grace,
        confirm_hours=confirm,
        share_max=share,
        expect_files=expect_files,
        filter=filter_kind,
        batch_size=batch,
        files_per_second=files_per_second,
        batches_per_second=batches_per_second,
        roots=roots,
        accept_missing=accept_missing,
        dry_run=dry_run,
    )
    check_options(options)
    with the_store(settings) as store, progress_bar() as bar:
        runs = Runs(store.backend, store.clock, lease_seconds=LEASE_SECONDS, lease_key=FILES_LEASE)
        with (
            opened_file_executor(settings, on_spark=use_spark) as executor,
            runs.run("files-sweep", dry_run=dry_run, supersede=supersede) as run,
        ):
            sweeping = FileSweep(store, operations_of(settings), options, on_progress=bar.add, executor=executor)
            report = sweeping.run(run)
    if json_output:
        print_json({"run": run.record.id, "dry_run": dry_run, **msgspec.to_builtins(report)})
    else:
        columns = ["root", "listed", "in use", "young", "others", "condemned", "confirmed", "purged", "failed"]
        rows = [
            (
                it.root,
                it.listed,
                it.live,
                it.young,
                it.unknown + it.protected + it.mismatched,
                it.condemned,
                it.confirmed,
                0 if it.purge is None else it.purge.purged,
                0 if it.purge is None else it.purge.failed,
            )
            for it in report.roots
        ]
        print_table(columns, rows)
        if dry_run:
            print_file_groups(group for it in report.roots for group in it.sample)
    refused = [f"{it.root}: {it.refusal}" for it in report.roots if it.refusal]
    unfinished = [
        f"{it.root}: {it.purge.failed} files could not be deleted" for it in report.roots if it.purge and it.purge.failed
    ]
    failed_if([*refused, *unfinished, *report.damage, *(line for it in report.roots for line in it.damage)])


def _filter(like: str | None, older_than: float | None) -> FileFilter:
    from headwater.persistence.clock import SystemClock
    from headwater.streaming.files.filters import EVERY_FILE, matching, modified_before

    chosen = EVERY_FILE if like is None else matching(like)
    if older_than is not None:
        age = timedelta(hours=older_than) // timedelta(microseconds=1)
        chosen &= modified_before(SystemClock().now_micros() - age)
    return chosen


def _show(found: Iterable[tuple[FileKind, int | None, str, msgspec.Struct]], list_files: bool, json_output: bool) -> None:
    """JSON is one file a line: a table may have millions."""
    counts: Counter[FileKind] = Counter()
    sizes: Counter[FileKind] = Counter()
    with progress_bar() as bar:
        for kind, size, location, file in found:
            if json_output:
                sys.stdout.write(msgspec.json.encode({**msgspec.structs.asdict(file), "kind": kind}).decode() + "\n")
            elif list_files:
                echo(f"{kind} {'' if size is None else size} {location}")
            bar.add("files", 1)
            counts[kind] += 1
            sizes[kind] += size or 0
    if not json_output:
        print_table(["kind", "files", "bytes known"], [(kind, counts[kind], sizes[kind]) for kind in sorted(counts)])
        echo(f"{counts.total()} files")


files.add_command(purge_command)
files.add_command(undo_command)
files.add_command(follow_command)
files.add_command(tasks_command)

COMMANDS = [files]
