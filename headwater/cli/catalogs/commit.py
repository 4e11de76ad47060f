"""`headwater commit`: commits operations, given as JSON or as flags, all or none."""

from __future__ import annotations

import sys
from pathlib import Path

import rich_click as click

from headwater.cli.catalogs.commit_output import print_commit
from headwater.cli.output import as_json
from headwater.cli.target import author, catalog_of, expected_head, in_catalog, message
from headwater.producer.commits.operations import CatalogOperation, Delete, Put, Rename
from headwater.producer.commits.operations_json import parse_operations
from headwater.producer.content.content_types import IcebergTable, Namespace
from headwater.schemas.errors import InvalidInput
from headwater.settings import Settings


@click.command()
@click.argument("file", required=False)
@click.option("--branch", default="main", show_default=True, help="The branch to commit to.")
@click.option("--namespace", "namespaces", multiple=True, metavar="KEY", help="Create a namespace, e.g. db or db.raw.")
@click.option("--put", "puts", multiple=True, metavar="KEY=LOCATION", help="Set an Iceberg table's metadata location.")
@click.option("--delete", "deletes", multiple=True, metavar="KEY", help="Remove a key.")
@click.option("--rename", "renames", multiple=True, metavar="FROM=TO", help="Move a key.")
@in_catalog
@author
@message
@expected_head
@click.option("--base-commit", metavar="COMMIT", help="The commit that you have read: only keys that changed since conflict.")
@click.option("--request-id", metavar="ID", help="Committing the same id again returns the first commit.")
@as_json
@click.pass_obj
def command(
    settings: Settings,
    file: str | None,
    branch: str,
    namespaces: tuple[str, ...],
    puts: tuple[str, ...],
    deletes: tuple[str, ...],
    renames: tuple[str, ...],
    realm: str,
    catalog: str,
    author: str | None,
    message: str,
    expected_head: str | None,
    base_commit: str | None,
    request_id: str | None,
    json_output: bool,
) -> None:
    """Commit operations to a branch, all or none.

    FILE contains the operations as JSON (-: standard input); simple ones can be given as flags:

        headwater commit --namespace db --put db.orders=s3://lake/db/orders/v1.metadata.json -m "First orders"
    """
    flags = _from_flags(namespaces, puts, deletes, renames)
    if (file is None) == (not flags):
        raise InvalidInput("give either FILE or flags.", field="operations", remedy="See `headwater commit --help`.")
    operations = flags if file is None else parse_operations(_read(file))
    with catalog_of(settings, realm, catalog) as lake:
        result = lake.branch(branch).commit(
            operations,
            author=author,
            message=message,
            expected_head=expected_head,
            base_commit=base_commit,
            request_id=request_id,
        )
    print_commit(result, json_output)


def _from_flags(
    namespaces: tuple[str, ...], puts: tuple[str, ...], deletes: tuple[str, ...], renames: tuple[str, ...]
) -> list[CatalogOperation]:
    made: list[CatalogOperation] = [Put(_key(key), Namespace()) for key in namespaces]
    made += [Put(_key(key), IcebergTable(location)) for key, location in (_pair(put, "--put") for put in puts)]
    made += [Delete(_key(key)) for key in deletes]
    made += [Rename(_key(old), _key(new)) for old, new in (_pair(rename, "--rename") for rename in renames)]
    return made


def _key(text: str) -> tuple[str, ...]:
    return tuple(text.split("."))


def _pair(text: str, flag: str) -> tuple[str, str]:
    left, equals, right = text.partition("=")
    if not equals or not left or not right:
        raise InvalidInput(f"{text!r} has no two sides.", field=flag, remedy="Write LEFT=RIGHT.")
    return left, right


def _read(file: str) -> bytes:
    try:
        return sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise InvalidInput(f"{file} cannot be read: {error.strerror}.", field="FILE", remedy="Name a file, or - .") from error
