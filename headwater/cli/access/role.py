"""`headwater role`: creates roles of a realm or a catalog, and gives them to principals."""

from __future__ import annotations

from collections.abc import Callable

import rich_click as click

from headwater.cli.access.record_commands import (
    RealmTarget,
    RecordTable,
    delete_command,
    list_command,
    of_catalog,
    properties,
    properties_of,
    properties_text,
    reads_realm,
    writes_realm,
)
from headwater.cli.output import echo, print_json, print_table, show_done
from headwater.cli.target import key_text
from headwater.manage import ManagedRealm
from headwater.schemas.http.manage_json import RoleInfo

ROLES = RecordTable[RoleInfo]("roles", ["role", "properties"], lambda one: (one.name, properties_text(one.properties)))


@click.group()
def command() -> None:
    """Create roles, and assign them to principals.

    A principal role belongs to the realm and is assigned to principals. A catalog role (--catalog) is assigned to principal
    roles.
    """


@command.command()
@click.argument("name")
@of_catalog
@properties
@writes_realm
def create(at: RealmTarget, name: str, catalog: str | None, assignments: tuple[str, ...]) -> None:
    """Create a role."""
    wanted = properties_of(assignments)
    with at.managed() as manage:
        made = manage.create_role(name, catalog, properties=wanted)
    ROLES.show(made, at.json_output)


list_command(command, ROLES, "Show the roles, in order of name.", lambda manage, catalog: manage.roles(catalog), of_catalog)


@command.command()
@click.argument("name")
@of_catalog
@reads_realm
def show(at: RealmTarget, name: str, catalog: str | None) -> None:
    """Show who has a role, and what is granted to it."""
    with at.managed() as manage:
        role, members, grants = manage.role(name, catalog), manage.members(name, catalog), manage.grants(name, catalog)
    held = [(one.right, key_text(tuple(one.path))) for one in grants]
    if at.json_output:
        shown = [{"right": right, "path": path} for right, path in held]
        print_json({"name": role.name, "properties": role.properties, "members": members, "grants": shown})
        return
    echo(f"{role.name}: {', '.join(members) or 'nobody'}")
    print_table(["right", "path"], held)


delete_command(
    command,
    "role",
    "Delete a role, with everything that was granted to it.",
    lambda manage, name, catalog: manage.delete_role(name, catalog),
    of_catalog,
)


def _membership(verb: str, help: str, act: Callable[[ManagedRealm, str, str, str | None], object], done: str, key: str) -> None:
    """`assign` and `revoke` differ in what they call and say."""

    @command.command(verb, help=help)
    @click.argument("role")
    @click.argument("member")
    @of_catalog
    @writes_realm
    def run(at: RealmTarget, role: str, member: str, catalog: str | None) -> None:
        with at.managed() as manage:
            act(manage, role, member, catalog)
        show_done(f"{member} {done}".format(role=role), {"role": role, key: member}, at.json_output)


_membership(
    "assign",
    "Assign a role to a principal, or with --catalog to a principal role.",
    lambda manage, role, member, catalog: manage.assign(role, member, catalog),
    "has {role}",
    "member",
)
_membership(
    "revoke",
    "Revoke a role.",
    lambda manage, role, member, catalog: manage.revoke(role, member, catalog),
    "has {role} no more",
    "revoked",
)
