"""`headwater log`: prints the commits of a reference, newest first."""

from __future__ import annotations

from itertools import islice

import rich_click as click

from headwater.cli.catalogs.changes_output import print_changes
from headwater.cli.output import as_json
from headwater.cli.target import catalog_of, in_catalog
from headwater.settings import Settings


@click.command()
@click.argument("reference", default="main")
@in_catalog
@click.option("--limit", default=50, show_default=True, type=click.IntRange(1), help="How many at most.")
@as_json
@click.pass_obj
def command(settings: Settings, reference: str, realm: str, catalog: str, limit: int, json_output: bool) -> None:
    """Show the commits of a branch, tag or commit, newest first, including those of the branches that it came from.

    REFERENCE is a name, name@commit, name~2, name*2026-01-31T12:00:00Z, or a commit id.
    """
    with catalog_of(settings, realm, catalog) as lake:
        print_changes(islice(lake.log(reference), limit), json_output=json_output)
