"""`headwater reflog`: prints every move of every branch and tag of a catalog, newest first."""

from __future__ import annotations

from itertools import islice

import rich_click as click

from headwater.cli.catalogs.changes_output import print_changes
from headwater.cli.output import as_json
from headwater.cli.target import catalog_of, in_catalog
from headwater.schemas.change import Kind
from headwater.settings import Settings


@click.command()
@in_catalog
@click.option("--kind", "kinds", multiple=True, type=click.Choice([str(kind) for kind in Kind]), help="Only these kinds.")
@click.option("--limit", default=50, show_default=True, type=click.IntRange(1), help="How many at most.")
@as_json
@click.pass_obj
def command(settings: Settings, realm: str, catalog: str, kinds: tuple[str, ...], limit: int, json_output: bool) -> None:
    """Show how all branches and tags of a catalog moved, deleted ones too, newest first; JSON is one Change per line.

    `--kind create --kind assign --kind delete` shows only the moves of references, without their commits.
    """
    with catalog_of(settings, realm, catalog) as lake:
        moves = lake.reference_log([Kind(kind) for kind in kinds])
        print_changes(islice(moves, limit), json_output=json_output, with_pointer=True)
