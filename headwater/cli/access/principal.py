"""`headwater principal`: creates, lists, rotates and deletes principals. A secret is shown once."""

from __future__ import annotations

import msgspec
import rich_click as click

from headwater.cli.access.record_commands import (
    RealmTarget,
    RecordTable,
    delete_command,
    list_command,
    properties,
    properties_of,
    reads_realm,
    writes_realm,
)
from headwater.cli.output import as_json, echo, print_json, print_table, show_secret
from headwater.cli.target import author, direct_store, key_text
from headwater.manage import NewSecret
from headwater.schemas.http.manage_json import EffectiveInfo, PrincipalInfo
from headwater.settings import Settings

PRINCIPALS = RecordTable[PrincipalInfo](
    "principals",
    ["principal", "client id", "secrets", "created"],
    lambda one: (one.name, one.client_id, len(one.secrets), one.created[:19]),
)


@click.group()
def command() -> None:
    """Create, list, rotate and delete the principals of a realm.

    The principals of the realm `::system::` manage realms; `headwater principal bootstrap` creates the first.
    """


@command.command()
@click.argument("name")
@click.option("--role", "roles", metavar="ROLE", multiple=True, help="Assign this principal role to it; may be repeated.")
@click.option("--no-secret", is_flag=True, help="Create no secret: only an external issuer can authenticate it.")
@properties
@writes_realm
def create(at: RealmTarget, name: str, roles: tuple[str, ...], no_secret: bool, assignments: tuple[str, ...]) -> None:
    """Create a principal; its secret is shown once."""
    wanted = properties_of(assignments)
    with at.managed() as manage:
        for role in roles:
            manage.role(role, None)  # before anything is written
        made = manage.create_principal(name, properties=wanted, with_secret=not no_secret)
        for role in roles:
            manage.assign(role, name, None)
    _show_new(made, at.json_output)


@command.command()
@click.argument("name", default="admin")
@author
@as_json
@click.pass_obj
def bootstrap(settings: Settings, name: str, author: str | None, json_output: bool) -> None:
    """Create a system administrator, who manages realms over HTTP; its secret is shown once.

    Until then there is no administrator and no password. The command always opens the store itself.
    """
    from headwater.embedded import commit_meta
    from headwater.producer.access.administrators import make_administrator
    from headwater.producer.access.writing import WriteMeta
    from headwater.producer.record_views import principal_info, secret_shown

    with direct_store(settings) as store:
        made = make_administrator(store.system, name, WriteMeta(commit_meta(author).author))
    _show_new(NewSecret(principal_info(made.principal), secret_shown(made)), json_output)


list_command(command, PRINCIPALS, "Show the principals of the realm, in order of name.", lambda manage: manage.principals())


@command.command()
@click.argument("name")
@reads_realm
def show(at: RealmTarget, name: str) -> None:
    """Show a principal, its roles, and what it may do."""
    with at.managed() as manage:
        principal, rights = manage.principal(name), manage.rights(name)
    held = _held(rights)
    if at.json_output:
        shown = [{"over": over, "right": right, "path": path} for over, right, path in held]
        print_json({**msgspec.to_builtins(principal), "roles": rights.roles, "rights": shown})
        return
    PRINCIPALS.show(principal, json_output=False)
    echo(f"roles: {', '.join(rights.roles) or 'none'}")
    print_table(["over", "right", "path"], held)


@command.command()
@click.argument("name")
@properties
@writes_realm
def update(at: RealmTarget, name: str, assignments: tuple[str, ...]) -> None:
    """Set the properties of a principal; properties that are not given are removed."""
    wanted = properties_of(assignments)
    with at.managed() as manage:
        written = manage.update_principal(name, properties=wanted)
    PRINCIPALS.show(written, at.json_output)


@command.command()
@click.argument("name")
@click.option("--overlap-seconds", default=0, show_default=True, help="How long the previous secret stays valid.")
@writes_realm
def rotate(at: RealmTarget, name: str, overlap_seconds: int) -> None:
    """Create a new secret, shown once; without an overlap, earlier secrets end now."""
    with at.managed() as manage:
        made = manage.rotate_secret(name, overlap_seconds=overlap_seconds)
    _show_new(made, at.json_output)


delete_command(
    command,
    "principal",
    "Delete a principal; its tokens end with it.",
    lambda manage, name: manage.delete_principal(name),
)


def _held(rights: EffectiveInfo) -> list[tuple[str, str, str]]:
    held = [("realm", right, "") for right in rights.realm]
    for catalog, by_right in rights.catalogs.items():
        held += [(catalog, right, key_text(tuple(path))) for right, paths in by_right.items() for path in paths]
    return held


def _show_new(made: NewSecret, json_output: bool) -> None:
    if json_output:
        secret = None if made.credentials is None else made.credentials.client_secret
        print_json({**msgspec.to_builtins(made.principal), "client_secret": secret})
        return
    PRINCIPALS.show(made.principal, json_output=False)
    if made.credentials is not None:
        show_secret(made.credentials)
