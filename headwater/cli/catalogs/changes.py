"""`headwater changes`: prints every Change after a cursor, oldest first, and with --follow those to come."""

from __future__ import annotations

from itertools import islice

import rich_click as click

from headwater.cli.catalogs.changes_output import print_changes
from headwater.cli.change_filter import filtered
from headwater.cli.output import as_json
from headwater.cli.target import catalog_of, in_catalog
from headwater.schemas.filters import Filter
from headwater.settings import Settings


@click.command()
@click.option("--branch", default="main", show_default=True, help="The branch to read.")
@in_catalog
@click.option("--after", default="earliest", show_default=True, help="A commit id, a seq, a time, earliest or latest.")
@click.option("--follow", is_flag=True, help="Wait for further changes.")
@click.option("--limit", type=click.IntRange(1), help="Stop after this many changes.")
@filtered
@as_json
@click.pass_obj
def command(
    settings: Settings,
    branch: str,
    realm: str,
    catalog: str,
    after: str,
    follow: bool,
    limit: int | None,
    wanted: Filter,
    json_output: bool,
) -> None:
    """Show every change of a branch after a cursor, oldest first, once each; JSON is one Change per line.

    A filter shows whole changes. It never hides deletions, renames out of the prefix or moves of the branch, unless
    --kind or --op exclude them by name.
    """
    with catalog_of(settings, realm, catalog) as lake:
        changes = lake.branch(branch).changes(after, follow=follow, filter=wanted)
        print_changes(islice(changes, limit), json_output=json_output)
