"""`headwater realm export` and `import`: writes a realm to a file, and creates a realm from one."""

from __future__ import annotations

from pathlib import Path

import rich_click as click

from headwater.cli.maintenance.maintain_output import progress_bar, supersede
from headwater.cli.output import as_json, echo, print_json, print_table
from headwater.cli.target import the_store
from headwater.settings import Settings


@click.command("export")
@click.argument("realm")
@click.option("--to", "to", metavar="PATH", required=True, help="A new file, or a folder in which to create one.")
@click.option("--low-level", is_flag=True, help="All rows of the realm as they are, garbage and mutable rows too.")
@click.option("--secrets", is_flag=True, help="Also the hashes of principals' secrets; --low-level has them in any case.")
@supersede
@as_json
@click.pass_obj
def export_command(
    settings: Settings, realm: str, to: str, low_level: bool, secrets: bool, supersede: str | None, json_output: bool
) -> None:
    """Write a realm to a file, as of one moment, while commits continue.

    The file gets its name when it is complete. It contains everything that the pointers reach, from their floors to their
    heads.
    """
    from headwater.streaming.reachability.retained_identifiers import installed_identifiers
    from headwater.streaming.transfer.exporting import ExportOptions, export_realm

    with the_store(settings) as store, progress_bar() as bar:
        options = ExportOptions(low_level=low_level, secrets=secrets)
        identifiers = installed_identifiers()
        report = export_realm(store, realm, Path(to), identifiers, options, supersede=supersede, on_progress=bar.add)
    if json_output:
        print_json(report)
        return
    counts = report.counts
    columns = ["realm", "pointers", "object rows", "reached", "mutable rows", "bytes"]
    print_table(columns, [(report.realm, counts.pointers, counts.objects, report.reached, counts.mutable, report.bytes)])
    echo(f"{report.instance} is in {report.file}, sha256 {report.sha256}")


@click.command("import")
@click.argument("file")
@click.option("--as", "name", metavar="REALM", required=True, help="The name of the new realm.")
@click.option("--resume", is_flag=True, help="Continue an interrupted import, which has left the realm LOADING.")
@click.option("--inactive", is_flag=True, help="Leave it INACTIVE: `headwater realm activate` opens it.")
@click.option("--dry-run", is_flag=True, help="Create nothing; check the whole file.")
@as_json
@click.pass_obj
def import_command(
    settings: Settings, file: str, name: str, resume: bool, inactive: bool, dry_run: bool, json_output: bool
) -> None:
    """Create a realm from an exported file, with a new instance.

    It is LOADING until every row was read back and compared, every hash computed again, and every state walked; then it
    is ACTIVE. Entry ids and commit ids are those of the exported realm.
    """
    from headwater.streaming.reachability.retained_identifiers import installed_identifiers
    from headwater.streaming.transfer.importing import ImportOptions, import_realm

    options = ImportOptions(resume=resume, active=not inactive, dry_run=dry_run)
    with the_store(settings) as store, progress_bar() as bar:
        report = import_realm(store, Path(file), name, installed_identifiers(), options, on_progress=bar.add)
    if json_output:
        print_json(report)
        return
    counts = report.counts
    columns = ["from", "pointers", "entries", "object rows", "reached", "mutable rows"]
    print_table(
        columns, [(report.from_instance, counts.pointers, report.entries, counts.objects, report.reached, counts.mutable)]
    )
    echo("the file is whole" if dry_run else f"{report.realm} is {report.status}, as {report.instance}")


COMMANDS = (export_command, import_command)
"""What the group `realm` adds."""
