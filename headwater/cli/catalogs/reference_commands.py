"""The sub-commands that `headwater branch` and `headwater tag` share: create, list, show, assign, delete."""

from __future__ import annotations

import rich_click as click

from headwater.cli.catalogs.commit_output import print_commit
from headwater.cli.output import as_json, print_json, print_table
from headwater.cli.target import author, catalog_of, expected_head, in_catalog, message
from headwater.producer.pointer_names import ReferenceType
from headwater.producer.references.references import Reference
from headwater.settings import Settings


def reference_group(type: ReferenceType, help: str) -> click.RichGroup:
    """The command for one type of reference."""
    noun = type.lower()

    @click.group(help=help)
    def group() -> None: ...

    @group.command(help=f"Create a {noun} at another reference or commit; costs the same for any number of tables.")
    @click.argument("name")
    @click.argument("at", default="main")
    @in_catalog
    @author
    @message
    @as_json
    @click.pass_obj
    def create(
        settings: Settings, name: str, at: str, realm: str, catalog: str, author: str | None, message: str, json_output: bool
    ) -> None:
        with catalog_of(settings, realm, catalog) as lake:
            result = lake.references.create(name, at, type=type, meta=lake.meta(author, message))
        print_commit(result, json_output)

    @group.command("list", help=f"Show every {noun}.")
    @in_catalog
    @click.option("--deleted", is_flag=True, help="Include deleted ones: their logs can still be read.")
    @as_json
    @click.pass_obj
    def list_references(settings: Settings, realm: str, catalog: str, deleted: bool, json_output: bool) -> None:
        found: list[Reference] = []
        with catalog_of(settings, realm, catalog) as lake:
            page = lake.references.list(type=type, deleted=deleted)
            found += page.references
            while page.next_token is not None:
                page = lake.references.list(type=type, deleted=deleted, token=page.next_token)
                found += page.references
        if json_output:
            print_json({"references": found})
        else:
            _print_table(found)

    @group.command(help=f"Show one {noun}.")
    @click.argument("name")
    @in_catalog
    @as_json
    @click.pass_obj
    def show(settings: Settings, name: str, realm: str, catalog: str, json_output: bool) -> None:
        with catalog_of(settings, realm, catalog) as lake:
            found = lake.references.get(name, type=type)
        if json_output:
            print_json(found)
        else:
            _print_table([found])

    @group.command(help=f"Move a {noun} to another reference or commit.")
    @click.argument("name")
    @click.argument("target")
    @in_catalog
    @author
    @message
    @expected_head
    @as_json
    @click.pass_obj
    def assign(
        settings: Settings,
        name: str,
        target: str,
        realm: str,
        catalog: str,
        author: str | None,
        message: str,
        expected_head: str | None,
        json_output: bool,
    ) -> None:
        with catalog_of(settings, realm, catalog) as lake:
            meta = lake.meta(author, message)
            result = lake.references.assign(name, target, type=type, expected_head=expected_head, meta=meta)
        print_commit(result, json_output)

    @group.command(help=f"Delete a {noun}; its log can still be read.")
    @click.argument("name")
    @in_catalog
    @author
    @message
    @expected_head
    @as_json
    @click.pass_obj
    def delete(
        settings: Settings,
        name: str,
        realm: str,
        catalog: str,
        author: str | None,
        message: str,
        expected_head: str | None,
        json_output: bool,
    ) -> None:
        with catalog_of(settings, realm, catalog) as lake:
            meta = lake.meta(author, message)
            result = lake.references.delete(name, type=type, expected_head=expected_head, meta=meta)
        print_commit(result, json_output)

    return group


def _print_table(references: list[Reference]) -> None:
    rows = [
        (one.name, one.commit_id[:16], one.seq, one.time[:19], one.pointer, "deleted" if one.deleted else "")
        for one in references
    ]
    print_table(["name", "commit", "seq", "last move", "pointer", ""], rows)
