"""`headwater merge`: merges a branch into another as one commit, or prints the conflicts key by key."""

from __future__ import annotations

import rich_click as click

from headwater.cli.catalogs.commit_output import print_commit
from headwater.cli.catalogs.merge_options import merge_rules, rules_options
from headwater.cli.output import as_json, print_json, print_table
from headwater.cli.target import author, catalog_of, expected_head, in_catalog, key_text, message
from headwater.schemas.http.merge_json import MergePreview
from headwater.settings import Settings


@click.command()
@click.argument("source")
@click.option("--into", default="main", show_default=True, metavar="BRANCH", help="The branch that gets the changes.")
@in_catalog
@rules_options
@click.option("--dry-run", is_flag=True, help="Show what would happen to each key; write nothing.")
@author
@message
@expected_head
@as_json
@click.pass_obj
def command(
    settings: Settings,
    source: str,
    into: str,
    realm: str,
    catalog: str,
    default: str,
    force: tuple[str, ...],
    drop: tuple[str, ...],
    dry_run: bool,
    author: str | None,
    message: str,
    expected_head: str | None,
    json_output: bool,
) -> None:
    """Merge what SOURCE changed since both diverged into a branch, as one commit. Merging again adds nothing."""
    rules = merge_rules(default, force, drop)
    with catalog_of(settings, realm, catalog) as lake:
        if dry_run:
            _print_preview(lake.preview_merge(source, into, rules=rules), json_output)
            return
        result = lake.merge(source, into, author=author, message=message, rules=rules, expected_head=expected_head)
    print_commit(result, json_output)


def _print_preview(preview: MergePreview, json_output: bool) -> None:
    if json_output:
        print_json(preview)
        return
    rows = [
        (key_text(outcome.key), outcome.verdict, outcome.conflict.message if outcome.conflict else "")
        for outcome in preview.keys
    ]
    print_table(["key", "outcome", "conflict"], rows, prose=["conflict"])
