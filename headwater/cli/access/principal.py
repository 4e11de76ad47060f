"""`headwater principal`: creates, lists, rotates and deletes principals. A secret is shown once."""

from __future__ import annotations

import msgspec
import rich_click as click

from headwater.cli.access.access_target import access_kernel, confirmed, every, properties, properties_of, write_meta, yes
from headwater.cli.output import as_json, echo, print_json, print_table
from headwater.cli.target import author, in_realm
from headwater.persistence.rows import SYSTEM_REALM
from headwater.persistence.store import RealmKernel
from headwater.producer.access.effective import effective_rights
from headwater.producer.access.grants import realm_grants
from headwater.producer.access.principals import Principal, Principals, WithSecret
from headwater.producer.access.rights import Right
from headwater.producer.access.roles import principal_roles
from headwater.producer.access.writing import WriteMeta
from headwater.producer.catalogs.catalogs import Catalogs
from headwater.schemas.entry_ids import time_text
from headwater.schemas.errors import RecordExists
from headwater.settings import Settings

SYSTEM_ROLE = "system-admin"


@click.group()
def command() -> None:
    """Create, list, rotate and delete the principals of a realm.

    The realm `::system::` holds those who manage realms: `headwater principal bootstrap` makes the first.
    """


@command.command()
@click.argument("name")
@click.option("--role", "roles", metavar="ROLE", multiple=True, help="Give it this principal role; may come often.")
@click.option("--no-secret", is_flag=True, help="Without a secret it is known by an external issuer alone.")
@properties
@in_realm
@author
@as_json
@click.pass_obj
def create(
    settings: Settings,
    name: str,
    roles: tuple[str, ...],
    no_secret: bool,
    assignments: tuple[str, ...],
    realm: str,
    author: str | None,
    json_output: bool,
) -> None:
    """Create a principal; its secret is shown once."""
    meta = write_meta(author)
    with access_kernel(settings, realm) as kernel:
        for role in roles:
            principal_roles(kernel).get(role)  # before anything is written
        made = Principals(kernel).create(name, properties=properties_of(assignments), with_secret=not no_secret, meta=meta)
        for role in roles:
            principal_roles(kernel).assign(name, role, meta=meta)
    _show_secret(made, json_output)


@command.command()
@click.argument("name", default="admin")
@author
@as_json
@click.pass_obj
def bootstrap(settings: Settings, name: str, author: str | None, json_output: bool) -> None:
    """Make a system administrator, who manages realms over HTTP; its secret is shown once.

    There is no administrator and no password until this is called.
    """
    with access_kernel(settings, SYSTEM_REALM) as kernel:
        made = make_administrator(kernel, name, write_meta(author))
    _show_secret(made, json_output)


@command.command("list")
@in_realm
@as_json
@click.pass_obj
def list_principals(settings: Settings, realm: str, json_output: bool) -> None:
    """Show the principals of the realm, in order of name."""
    with access_kernel(settings, realm) as kernel:
        principals = Principals(kernel)
        found = every(lambda last: principals.list(after=last.name if last else ""))
    if json_output:
        print_json({"principals": found})
    else:
        _print_principals(found)


@command.command()
@click.argument("name")
@in_realm
@as_json
@click.pass_obj
def show(settings: Settings, name: str, realm: str, json_output: bool) -> None:
    """Show a principal, its roles, and what it may do."""
    with access_kernel(settings, realm) as kernel:
        principal = Principals(kernel).get(name)
        catalogs = {} if realm == SYSTEM_REALM else {one.id: one.name for one in Catalogs(kernel).list()}
        rights = effective_rights(kernel, name, catalogs)
    held = [("realm", str(right), "") for right in sorted(rights.realm.paths)]
    for id, of_catalog in rights.catalogs.items():
        for right, paths in sorted(of_catalog.paths.items()):
            held += [(catalogs[id], str(right), ".".join(path)) for path in sorted(paths)]
    if json_output:
        told = [{"over": over, "right": right, "path": path} for over, right, path in held]
        print_json({**msgspec.to_builtins(principal), "roles": rights.roles, "rights": told})
        return
    _print_principals([principal])
    echo(f"roles: {', '.join(rights.roles) or 'none'}")
    print_table(["over", "right", "path"], held)


@command.command()
@click.argument("name")
@properties
@in_realm
@author
@as_json
@click.pass_obj
def update(
    settings: Settings, name: str, assignments: tuple[str, ...], realm: str, author: str | None, json_output: bool
) -> None:
    """Set the properties of a principal; those that are not named go."""
    with access_kernel(settings, realm) as kernel:
        written = Principals(kernel).update(name, properties=properties_of(assignments), meta=write_meta(author))
    if json_output:
        print_json(written.value)
    else:
        _print_principals([written.value])


@command.command()
@click.argument("name")
@click.option("--overlap-seconds", default=0, show_default=True, help="How long the secret before it still counts.")
@in_realm
@author
@as_json
@click.pass_obj
def rotate(settings: Settings, name: str, overlap_seconds: int, realm: str, author: str | None, json_output: bool) -> None:
    """Make a new secret, shown once; without an overlap all before it end now."""
    with access_kernel(settings, realm) as kernel:
        made = Principals(kernel).rotate_secret(name, overlap_seconds=overlap_seconds, meta=write_meta(author))
    _show_secret(made, json_output)


@command.command()
@click.argument("name")
@yes
@in_realm
@author
@as_json
@click.pass_obj
def delete(settings: Settings, name: str, yes: bool, realm: str, author: str | None, json_output: bool) -> None:
    """Delete a principal; its tokens end with it."""
    confirmed(f"Delete principal {name} of realm {realm}?", yes)
    with access_kernel(settings, realm) as kernel:
        Principals(kernel).delete(name, meta=write_meta(author))
    if json_output:
        print_json({"deleted": name})


def make_administrator(kernel: RealmKernel, name: str, meta: WriteMeta) -> WithSecret:
    """The role comes first: a principal that is there and may do nothing would have to be found by somebody."""
    roles = principal_roles(kernel)
    try:
        roles.create(SYSTEM_ROLE, meta=meta)
    except RecordExists:
        roles.get(SYSTEM_ROLE)
    realm_grants(kernel).grant(SYSTEM_ROLE, Right.SYSTEM_MANAGE, meta=meta)
    realm_grants(kernel).grant(SYSTEM_ROLE, Right.ACCESS_MANAGE, meta=meta)
    made = Principals(kernel).create(name, meta=meta)
    roles.assign(name, SYSTEM_ROLE, meta=meta)
    return made


def _show_secret(made: WithSecret, json_output: bool) -> None:
    principal, credentials = made.principal, made.credentials
    if json_output:
        print_json({**msgspec.to_builtins(principal), "client_secret": credentials and credentials.client_secret})
        return
    _print_principals([principal])
    if credentials is not None:
        # Not in a table: a narrow terminal would cut what is never shown again.
        echo(f"client id      {credentials.client_id}\nclient secret  {credentials.client_secret}")
        echo("The secret is not stored and is not shown again.")


def _print_principals(found: list[Principal]) -> None:
    rows = [(one.name, one.client_id, len(one.secrets), time_text(one.created_at)[:19]) for one in found]
    print_table(["principal", "client id", "secrets", "created"], rows)
