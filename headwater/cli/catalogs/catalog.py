"""`headwater catalog`: creates, lists, updates and drops catalogs."""

from __future__ import annotations

import rich_click as click

from headwater.cli.access.access_target import access_kernel, properties, properties_of, write_meta
from headwater.cli.output import as_json, echo, print_json, print_table
from headwater.cli.target import author, in_realm, realm_of
from headwater.producer.catalogs.catalog_updates import drop_catalog, update_catalog
from headwater.schemas.entry_ids import time_text
from headwater.settings import Settings


@click.group()
def command() -> None:
    """Create, list, update and drop the catalogs of a realm."""


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
        echo(f"catalog {info.name} is cat/{info.id}, branch {info.default_branch}")


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
@click.option("--storage-root", metavar="URI", help="Where its tables' files live; only while the catalog is empty.")
@properties
@in_realm
@author
@as_json
@click.pass_obj
def update(
    settings: Settings,
    name: str,
    storage_root: str | None,
    assignments: tuple[str, ...],
    realm: str,
    author: str | None,
    json_output: bool,
) -> None:
    """Set properties of a catalog; those that are not named go."""
    with access_kernel(settings, realm) as kernel:
        written = update_catalog(
            kernel,
            name,
            storage_root=storage_root,
            properties=properties_of(assignments) if assignments else None,
            meta=write_meta(author),
        )
    if json_output:
        print_json(written.catalog)
    else:
        echo(f"catalog {name}: {' '.join(f'{k}={v}' for k, v in written.catalog.properties.items()) or 'no properties'}")


@command.command()
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--require-empty", is_flag=True, help="Refuse while something is inside.")
@click.option("--purge", is_flag=True, help="Its history need not be kept either: the next maintenance removes it.")
@in_realm
@author
@click.pass_obj
def drop(settings: Settings, name: str, yes: bool, require_empty: bool, purge: bool, realm: str, author: str | None) -> None:
    """Mark a catalog as dropped: its branches take no more commits, and maintenance removes its data."""
    if not yes:
        click.confirm(f"Drop catalog {name} of realm {realm}?", abort=True)
    with access_kernel(settings, realm) as kernel:
        drop_catalog(kernel, name, require_empty=require_empty, purge=purge, meta=write_meta(author))
    echo(f"catalog {name} is dropped")
