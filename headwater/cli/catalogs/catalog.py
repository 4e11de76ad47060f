"""`headwater catalog`: creates, lists, updates and drops catalogs."""

from __future__ import annotations

import rich_click as click

from headwater.cli.access.record_commands import (
    RecordTable,
    delete_command,
    list_command,
    properties,
    properties_of,
    properties_text,
)
from headwater.cli.output import as_json, echo, print_json
from headwater.cli.target import author, in_realm, managed_realm
from headwater.schemas.http.manage_json import CatalogInfo
from headwater.settings import Settings

CATALOGS = RecordTable[CatalogInfo](
    "catalogs",
    ["catalog", "pointers", "default branch", "storage root", "created"],
    lambda one: (one.name, f"cat/{one.id}", one.default_branch, one.storage_root, one.created[:19]),
)


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
    with managed_realm(settings, realm, author) as manage:
        info = manage.create_catalog(name, storage_root=storage_root)
    if json_output:
        print_json(info)
    else:
        echo(f"catalog {info.name} is cat/{info.id}, branch {info.default_branch}")


list_command(command, CATALOGS, "Show all catalogs of the realm.", lambda manage: manage.catalogs())


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
    wanted = properties_of(assignments) if assignments else None
    with managed_realm(settings, realm, author) as manage:
        info = manage.update_catalog(name, storage_root=storage_root, properties=wanted)
    if json_output:
        print_json(info)
    else:
        echo(f"catalog {name}: {properties_text(info.properties) or 'no properties'}")


delete_command(
    command,
    "catalog",
    "Mark a catalog as dropped: its branches take no more commits, and maintenance removes its data.",
    lambda manage, name, require_empty, purge: manage.drop_catalog(name, require_empty=require_empty, purge=purge),
    click.option("--require-empty", is_flag=True, help="Refuse while something is inside."),
    click.option("--purge", is_flag=True, help="Its history need not be kept either: the next maintenance removes it."),
    verb="drop",
)
