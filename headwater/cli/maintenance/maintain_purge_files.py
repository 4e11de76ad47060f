"""`headwater maintain files purge`: deletes named files that nothing needs; and the limits that it shares with the sweep."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec
import rich_click as click

from headwater.cli.maintenance.maintain_output import Amount, dry_run, failed_if, print_file_groups, progress_bar, supersede
from headwater.cli.maintenance.table_contents import content_of
from headwater.cli.output import as_json, print_json, print_table
from headwater.cli.target import in_catalog, the_store
from headwater.schemas.errors import InvalidInput
from headwater.settings import Settings

if TYPE_CHECKING:
    from headwater.streaming.files.filters import FileFilter
    from headwater.streaming.files.kinds import FileRef
    from headwater.streaming.files.operations import FileOperations
    from headwater.streaming.files.sweep.file_sweep import FileSweepOptions, FileSweepReport

_LIMITS = (
    click.option("--batch", type=click.IntRange(1, 1_000), help="Files per request. Default: the setting files_batch."),
    click.option("--files-per-second", type=Amount(0), help="Limit of deleted files. Default: the setting files_per_second."),
    click.option(
        "--batches-per-second",
        type=Amount(0),
        help="Limit of requests that delete. Default: the setting file_batches_per_second.",
    ),
)
_Options = TypeVar("_Options", bound=msgspec.Struct)


def limits(command: Callable[..., None]) -> Callable[..., None]:
    for option in reversed(_LIMITS):
        command = option(command)
    return command


def with_options(options: _Options, **given: object) -> _Options:
    """What was left out on the command line is as the settings say."""
    return msgspec.structs.replace(options, **{name: value for name, value in given.items() if value is not None})


def operations_of(settings: Settings) -> FileOperations:
    """Loaded when a command runs, not when its help is shown."""
    from headwater.wiring.maintenance import file_operations

    return file_operations(settings)


@click.command("purge")
@click.option("--table", metavar="KEY", help="The files of this table or view at --reference.")
@in_catalog
@click.option("--reference", default="main", show_default=True, help="With --table: a branch, tag or commit.")
@click.option("--metadata", metavar="LOCATION", help="The files of the table version with this metadata file.")
@click.option(
    "--from",
    "list_file",
    metavar="FILE",
    type=click.Path(allow_dash=True),
    help="File with locations, one per line; -: standard input.",
)
@click.option("--location", metavar="FOLDER", help="All files below this folder.")
@click.option("--like", metavar="PATTERN", help="Only locations that match, e.g. '*.parquet'.")
@click.option(
    "--older-than",
    metavar="HOURS",
    type=Amount(min=0),
    help="With --location: only older files. Default: the setting files_grace_hours.",
)
@click.option("--lenient", is_flag=True, help="With --table or --metadata: continue after files that cannot be read.")
@limits
@dry_run
@supersede
@as_json
@click.pass_obj
def purge_command(
    settings: Settings,
    table: str | None,
    realm: str,
    catalog: str,
    reference: str,
    metadata: str | None,
    list_file: str | None,
    location: str | None,
    like: str | None,
    older_than: float | None,
    lenient: bool,
    batch: int | None,
    files_per_second: float | None,
    batches_per_second: float | None,
    dry_run: bool,
    supersede: str | None,
    json_output: bool,
) -> None:
    """Delete files that no retained state of any realm needs: those of a table, of a list, or below a folder.

    They must be below a claimed storage root. Files in use are kept and counted. Exit code 1 means that a file could not
    be deleted.
    """
    from headwater.persistence.clock import SystemClock
    from headwater.streaming.files.filters import matching, modified_before
    from headwater.streaming.files.kinds import FoundFile
    from headwater.streaming.files.sweep.file_sweep import HOUR_MICROS
    from headwater.wiring.maintenance import sweep_options

    if sum(one is not None for one in (table, metadata, list_file, location)) != 1:
        raise InvalidInput(
            "it is not said which files are meant.",
            field="--table",
            remedy="Name one of --table, --metadata, --from, --location.",
        )
    operations = operations_of(settings)
    faults: list[str] = []
    if table is not None:
        named = content_of(settings, realm, catalog, reference, table)
        files: Iterable[FileRef] = _of_metadata(operations, *named, lenient, faults)
    elif metadata is not None:
        files = _of_metadata(operations, metadata, "table", lenient, faults)
    elif list_file is not None:
        files = _of_list(list_file)
    else:
        age_hours = settings.files_grace_hours if older_than is None else older_than
        oldest = SystemClock().now_micros() - int(age_hours * HOUR_MICROS)
        files = _of_folder(operations, str(location), modified_before(oldest))
    if like is not None:
        chosen = matching(like)
        files = (file for file in files if chosen(FoundFile(file.location, file.size or 0, None)))
    options = with_options(
        sweep_options(settings),
        batch_size=batch,
        files_per_second=files_per_second,
        batches_per_second=batches_per_second,
        dry_run=dry_run,
    )
    report = _purge(settings, operations, files, options, supersede)
    _show(report, dry_run, json_output)
    refused = [f"{it.root}: {it.refusal}" for it in report.roots if it.refusal]
    failed_if([*faults, *refused, *(line.reason for it in report.roots if it.purge for line in it.purge.failures)])


def _purge(
    settings: Settings,
    operations: FileOperations,
    files: Iterable[FileRef],
    options: FileSweepOptions,
    supersede: str | None,
) -> FileSweepReport:
    from headwater.streaming.files.sweep.asked_files import Asked
    from headwater.streaming.files.sweep.file_sweep import FILES_LEASE, LEASE_SECONDS, FileSweep
    from headwater.streaming.files.sweep.roots import roots_of
    from headwater.streaming.files.sweep.store_marks import markable_realms
    from headwater.streaming.runs.runs import Runs

    asked = Asked(files)
    with the_store(settings) as store, progress_bar() as bar:
        named = asked.roots(roots_of(store, markable_realms(store)))
        if not named:
            raise InvalidInput("no file was found.", field="--location", remedy="Look with `headwater maintain files find`.")
        options = msgspec.structs.replace(options, roots=named)
        runs = Runs(store.backend, store.clock, lease_seconds=LEASE_SECONDS, lease_key=FILES_LEASE)
        with runs.run("files-purge", dry_run=options.dry_run, supersede=supersede) as run:
            return FileSweep(store, operations, options, on_progress=bar.add, asked=asked).run(run)


def _show(report: FileSweepReport, dry_run: bool, json_output: bool) -> None:
    if json_output:
        print_json({"dry_run": dry_run, **msgspec.to_builtins(report)})
        return
    rows = [
        (
            it.root,
            it.listed,
            it.listed - it.confirmed + it.rescued,
            it.confirmed,
            0 if it.purge is None else it.purge.purged,
            0 if it.purge is None else it.purge.failed,
        )
        for it in report.roots
    ]
    print_table(["root", "named", "spared", "deletable", "purged", "failed"], rows)
    if dry_run:
        print_file_groups(group for it in report.roots for group in it.sample)


def _of_metadata(operations: FileOperations, location: str, kind: str, lenient: bool, faults: list[str]) -> Iterator[FileRef]:
    from headwater.streaming.files.formats.reading import Mode

    mode = Mode.LENIENT if lenient else Mode.STRICT
    return operations.identify(location, kind, mode, deduplicate=True, on_fault=lambda one: faults.append(one.reason))


def _of_list(name: str) -> Iterator[FileRef]:
    from headwater.streaming.files.kinds import FileRef, kind_by_name

    try:
        text = sys.stdin.read() if name == "-" else Path(name).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{name} cannot be read: {error}.", field="--from", remedy="Name a text file.") from None
    for line in text.splitlines():
        if line.strip():
            yield FileRef(line.strip(), kind_by_name(line.strip()))


def _of_folder(operations: FileOperations, folder: str, chosen: FileFilter) -> Iterator[FileRef]:
    from headwater.streaming.files.kinds import FileRef, kind_by_name

    for file in operations.find(folder, chosen):
        yield FileRef(file.location, kind_by_name(file.location), file.size)
