"""`headwater transplant`: copies commits of another branch, oldest first, all or none."""

from __future__ import annotations

import rich_click as click

from headwater.cli.catalogs.commit_output import print_commit
from headwater.cli.catalogs.merge_options import merge_rules, rules_options
from headwater.cli.output import as_json
from headwater.cli.target import author, catalog_of, expected_head, in_catalog, message
from headwater.settings import Settings


@click.command()
@click.argument("commits", nargs=-1, required=True)
@click.option("--into", default="main", show_default=True, metavar="BRANCH", help="The branch that gets the commits.")
@in_catalog
@rules_options
@author
@message
@expected_head
@as_json
@click.pass_obj
def command(
    settings: Settings,
    commits: tuple[str, ...],
    into: str,
    realm: str,
    catalog: str,
    default: str,
    force: tuple[str, ...],
    drop: tuple[str, ...],
    author: str | None,
    message: str,
    expected_head: str | None,
    json_output: bool,
) -> None:
    """Copy single COMMITS to a branch, oldest first; each keeps its author and message."""
    rules = merge_rules(default, force, drop)
    with catalog_of(settings, realm, catalog) as lake:
        result = lake.transplant(commits, into, author=author, message=message, rules=rules, expected_head=expected_head)
    print_commit(result, json_output)
