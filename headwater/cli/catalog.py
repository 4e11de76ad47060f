"""`headwater catalog`: a catalog's name enters; the catalog, or a table of them, leaves."""

from __future__ import annotations

import rich_click as click

from headwater.cli.output import as_json, print_json, print_table
from headwater.cli.place import author, in_realm, realm_of
from headwater.schemas.entry_ids import time_text
from headwater.settings import Settings


@click.group()
def command() -> None:
    """Create, list and drop the catalogs of a realm."""


@command.command()
@click.argument("name")
@click.option("--storage-root", default="", metavar="URI", help="Where its tables' files live.")
@in_realm
@author
@as_json
@click.pass_obj
def create(settings: Settings, name: str, storage_root: str, realm: str, author: str | None, json_output: bool) -> None:
    """Create a catalog with its branch `main`."""
    with realm_of(settings, realm) as handle:
        info = handle.create_catalog(name, storage_root=storage_root, author=author).info
    if json_output:
        print_json(info)
    else:
        click.echo(f"catalog {info.name} is cat/{info.id}, branch {info.default_branch}")


@command.command("list")
@in_realm
@as_json
@click.pass_obj
def list_catalogs(settings: Settings, realm: str, json_output: bool) -> None:
    """Show all catalogs of the realm."""
    with realm_of(settings, realm) as handle:
        found = [handle.catalog(name).info for name in handle.catalogs()]
    if json_output:
        print_json({"catalogs": found})
        return
    rows = [(one.name, f"cat/{one.id}", one.default_branch, one.storage_root, time_text(one.created_at)[:19]) for one in found]
    print_table(["catalog", "pointers", "default branch", "storage root", "created"], rows)


@command.command()
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
@in_realm
@author
@click.pass_obj
def drop(settings: Settings, name: str, yes: bool, realm: str, author: str | None) -> None:
    """Mark a catalog as dropped: its branches take no more commits, and maintenance removes its data."""
    if not yes:
        click.confirm(f"Drop catalog {name} of realm {realm}?", abort=True)
    with realm_of(settings, realm) as handle:
        handle.drop_catalog(name, author=author)
    click.echo(f"catalog {name} is dropped")
