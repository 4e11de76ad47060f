"""`headwater snapshot`: prints all keys and contents at a reference or commit, with the seq to follow from."""

from __future__ import annotations

import rich_click as click

from headwater.cli.output import as_json, echo, print_json, print_table
from headwater.cli.target import catalog_of, in_catalog, key_text
from headwater.settings import Settings


@click.command()
@click.argument("reference", default="main")
@in_catalog
@click.option("--prefix", default="", metavar="KEY", help="Only keys below this one, e.g. db.")
@as_json
@click.pass_obj
def command(settings: Settings, reference: str, realm: str, catalog: str, prefix: str, json_output: bool) -> None:
    """Show all keys and contents at a branch, tag or commit. `changes --after SEQ` continues from it without a gap."""
    with catalog_of(settings, realm, catalog) as lake:
        snapshot = lake.snapshot(reference)
        entries = list(snapshot.entries(tuple(prefix.split(".")) if prefix else ()))
    if json_output:
        where = {"pointer": snapshot.pointer, "seq": snapshot.seq, "commit_id": snapshot.commit_id}
        print_json(where | {"entries": entries})
        return
    rows = [(key_text(one.key), one.type, one.value.get("snapshot_id"), one.value.get("metadata_location")) for one in entries]
    print_table(["key", "type", "snapshot", "metadata location"], rows)
    echo(f"{len(entries)} keys of {snapshot.pointer} at seq {snapshot.seq}, commit {snapshot.commit_id}")
