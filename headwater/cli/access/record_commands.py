"""What the commands on records share: flags, tables, and the sub-commands `list` and `delete`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Generic, NamedTuple, TypeVar

import rich_click as click

from headwater.cli.output import as_json, confirmed, print_json, print_table, show_done, yes
from headwater.cli.target import author, in_realm, managed_realm
from headwater.manage import ManagedRealm
from headwater.settings import Settings

T = TypeVar("T")
Decorator = Callable[[Any], Any]

of_catalog = click.option("--catalog", metavar="NAME", help="Of this catalog. Default: of the realm.")
at_path = click.option("--path", "path_text", metavar="a.b", default="", help="At and below this path of the catalog.")
properties = click.option("--property", "assignments", metavar="NAME=VALUE", multiple=True, help="A property; may be repeated.")


class RealmTarget(NamedTuple):
    """The realm that a command works in, who works, and how it answers."""

    settings: Settings
    realm: str
    author: str | None
    json_output: bool

    def managed(self) -> AbstractContextManager[ManagedRealm]:
        return managed_realm(self.settings, self.realm, self.author)


def reads_realm(command: Callable[..., None]) -> Callable[..., None]:
    """Gives a command its flags for a realm as a RealmTarget."""
    return _with_target(command, [in_realm, as_json])


def writes_realm(command: Callable[..., None]) -> Callable[..., None]:
    """The same, with an author."""
    return _with_target(command, [in_realm, author, as_json])


def _with_target(command: Callable[..., None], flags: Sequence[Decorator]) -> Callable[..., None]:
    def run(settings: Settings, realm: str, json_output: bool, author: str | None = None, **values: Any) -> None:
        command(RealmTarget(settings, realm, author, json_output), **values)

    functools.update_wrapper(run, command)  # with the flags of its own
    return _decorated(run, flags)


class RecordTable(NamedTuple, Generic[T]):
    """How records of one kind are printed."""

    plural: str
    columns: Sequence[str]
    row: Callable[[T], Sequence[object]]

    def show(self, record: T, json_output: bool) -> None:
        if json_output:
            print_json(record)
        else:
            print_table(self.columns, [self.row(record)])

    def show_all(self, records: Iterable[T], json_output: bool) -> None:
        found = list(records)
        if json_output:
            print_json({self.plural: found})
        else:
            print_table(self.columns, map(self.row, found))


def list_command(
    group: click.RichGroup, table: RecordTable[Any], help: str, read: Callable[..., Iterable[Any]], *options: Decorator
) -> None:
    """`list`; `read` is given the managed realm and the values of the options."""

    def run(settings: Settings, realm: str, json_output: bool, **flags: Any) -> None:
        with managed_realm(settings, realm) as manage:
            found = list(read(manage, **flags))
        table.show_all(found, json_output)

    _add(group, "list", help, run, [in_realm, as_json, *options])


def delete_command(
    group: click.RichGroup, noun: str, help: str, delete: Callable[..., None], *options: Decorator, verb: str = "delete"
) -> None:
    """`delete NAME`, which asks first; `delete` is given the managed realm, the name and the values of the options."""

    def run(settings: Settings, name: str, yes: bool, realm: str, author: str | None, json_output: bool, **flags: Any) -> None:
        confirmed(f"{verb.capitalize()} {noun} {name} of realm {realm}?", yes)
        with managed_realm(settings, realm, author) as manage:
            delete(manage, name, **flags)
        show_done(f"{noun} {name} is {past}", {past: name}, json_output)

    past = {"delete": "deleted", "drop": "dropped"}[verb]
    _add(group, verb, help, run, [click.argument("name"), yes, in_realm, author, as_json, *options])


def _add(group: click.RichGroup, name: str, help: str, run: Callable[..., None], decorators: Sequence[Decorator]) -> None:
    group.command(name, help=help)(_decorated(run, decorators))


def _decorated(run: Callable[..., None], decorators: Sequence[Decorator]) -> Callable[..., None]:
    decorated: Callable[..., None] = click.pass_obj(run)
    for decorate in reversed(decorators):
        decorated = decorate(decorated)
    return decorated


def properties_of(assignments: Sequence[str]) -> dict[str, str]:
    found = {}
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if not equals or not name:
            raise click.BadParameter(f"{assignment!r} is not NAME=VALUE.", param_hint="--property")
        found[name] = value
    return found


def properties_text(properties: dict[str, str]) -> str:
    return " ".join(f"{name}={value}" for name, value in properties.items())
