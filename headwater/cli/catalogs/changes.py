"""`headwater changes`: prints every Change after a cursor, oldest first, and with --follow those to come."""

from __future__ import annotations

from itertools import islice

import rich_click as click

from headwater.cli.catalogs.changes_output import print_changes
from headwater.cli.output import as_json
from headwater.cli.target import catalog_of, in_catalog
from headwater.producer.content.content_types import check_type_name
from headwater.schemas.change import Kind, Op
from headwater.schemas.filters import Filter
from headwater.settings import Settings


@click.command()
@click.option("--branch", default="main", show_default=True, help="The branch to read.")
@in_catalog
@click.option("--after", default="earliest", show_default=True, help="A commit id, a seq, a time, earliest or latest.")
@click.option("--follow", is_flag=True, help="Wait for further changes.")
@click.option("--limit", type=click.IntRange(1), help="Stop after this many changes.")
@click.option("--kind", "kinds", multiple=True, type=click.Choice([str(kind) for kind in Kind]), help="Only these kinds.")
@click.option("--op", "ops", multiple=True, type=click.Choice([str(op) for op in Op]), help="Only these operations.")
@click.option("--type", "types", multiple=True, metavar="TYPE", help="Only these content types, e.g. ICEBERG_TABLE.")
@click.option("--prefix", default="", metavar="KEY", help="Only keys below this one, e.g. db.")
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
    kinds: tuple[str, ...],
    ops: tuple[str, ...],
    types: tuple[str, ...],
    prefix: str,
    json_output: bool,
) -> None:
    """Show every change of a branch after a cursor, oldest first, once each; JSON is one Change per line.

    A filter shows whole changes. It never hides deletions, renames out of the prefix or moves of the branch, unless
    --kind or --op exclude them by name.
    """
    wanted = Filter(
        kinds=tuple(Kind(kind) for kind in kinds),
        operations=tuple(Op(op) for op in ops),
        types=tuple(check_type_name(name, "--type") for name in types),
        prefix=tuple(prefix.split(".")) if prefix else (),
    )
    with catalog_of(settings, realm, catalog) as lake:
        changes = lake.branch(branch).changes(after, follow=follow, filter=wanted)
        print_changes(islice(changes, limit), json_output=json_output)
