"""`headwater catalog`: creates, lists, updates and drops catalogs."""

from __future__ import annotations

import rich_click as click

from headwater.cli.access.record_commands import (
    RealmTarget,
    RecordTable,
    delete_command,
    list_command,
    properties,
    properties_of,
    properties_text,
    writes_realm,
)
from headwater.cli.output import echo, print_json
from headwater.schemas.http.manage_json import CatalogInfo

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
@click.option("--storage-root", default="", metavar="URI", help="Location of its tables' files.")
@writes_realm
def create(at: RealmTarget, name: str, storage_root: str) -> None:
    """Create a catalog with its branch `main`."""
    with at.managed() as manage:
        info = manage.create_catalog(name, storage_root=storage_root)
    if at.json_output:
        print_json(info)
    else:
        echo(f"catalog {info.name} is cat/{info.id}, branch {info.default_branch}")


list_command(command, CATALOGS, "Show all catalogs of the realm.", lambda manage: manage.catalogs())


@command.command()
@click.argument("name")
@click.option("--storage-root", metavar="URI", help="Location of its tables' files; only while the catalog is empty.")
@properties
@writes_realm
def update(at: RealmTarget, name: str, storage_root: str | None, assignments: tuple[str, ...]) -> None:
    """Set the properties of a catalog; properties that are not given are removed."""
    wanted = properties_of(assignments) if assignments else None
    with at.managed() as manage:
        info = manage.update_catalog(name, storage_root=storage_root, properties=wanted)
    if at.json_output:
        print_json(info)
    else:
        echo(f"catalog {name}: {properties_text(info.properties) or 'no properties'}")


delete_command(
    command,
    "catalog",
    "Mark a catalog as dropped: its branches accept no more commits, and maintenance removes its data.",
    lambda manage, name, require_empty, purge: manage.drop_catalog(name, require_empty=require_empty, purge=purge),
    click.option("--require-empty", is_flag=True, help="Refuse if the catalog is not empty."),
    click.option("--purge", is_flag=True, help="Do not keep its history: the next maintenance removes it."),
    verb="drop",
)
