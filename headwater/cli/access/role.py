"""`headwater role`: creates roles of a realm or a catalog, and gives them to principals."""

from __future__ import annotations

import rich_click as click

from headwater.cli.access.access_target import (
    access_kernel,
    catalog_id,
    confirmed,
    every,
    grants_of,
    of_catalog,
    properties,
    properties_of,
    write_meta,
    yes,
)
from headwater.cli.output import as_json, echo, print_json, print_table
from headwater.cli.target import author, in_realm
from headwater.persistence.store import RealmKernel
from headwater.producer.access.roles import Role, Roles, catalog_roles, principal_roles
from headwater.settings import Settings

TIDYING_PAGES_MAX = 100


@click.group()
def command() -> None:
    """Create roles, and give them to principals.

    A principal role belongs to the realm and is given to principals. A catalog role (--catalog) is given to principal roles.
    """


@command.command()
@click.argument("name")
@of_catalog
@properties
@in_realm
@author
@as_json
@click.pass_obj
def create(
    settings: Settings,
    name: str,
    catalog: str | None,
    assignments: tuple[str, ...],
    realm: str,
    author: str | None,
    json_output: bool,
) -> None:
    """Create a role."""
    with access_kernel(settings, realm) as kernel:
        made = _roles(kernel, catalog).create(name, properties=properties_of(assignments), meta=write_meta(author))
    _show([made.value], json_output)


@command.command("list")
@of_catalog
@in_realm
@as_json
@click.pass_obj
def list_roles(settings: Settings, catalog: str | None, realm: str, json_output: bool) -> None:
    """Show the roles, in order of name."""
    with access_kernel(settings, realm) as kernel:
        roles = _roles(kernel, catalog)
        found = every(lambda last: roles.list(after=last.name if last else ""))
    if json_output:
        print_json({"roles": found})
    else:
        _show(found, json_output=False)


@command.command()
@click.argument("name")
@of_catalog
@in_realm
@as_json
@click.pass_obj
def show(settings: Settings, name: str, catalog: str | None, realm: str, json_output: bool) -> None:
    """Show who has a role, and what is granted to it."""
    with access_kernel(settings, realm) as kernel:
        role = _roles(kernel, catalog).get(name)
        members = [one.member for one in _roles(kernel, catalog).members(name)]
        held = [(str(one.right), ".".join(one.path)) for one in grants_of(kernel, catalog).of_role(name)]
    if json_output:
        told = [{"right": right, "path": path} for right, path in held]
        print_json({"name": role.name, "properties": role.properties, "members": members, "grants": told})
        return
    echo(f"{role.name}: {', '.join(members) or 'nobody'}")
    print_table(["right", "path"], held)


@command.command()
@click.argument("name")
@of_catalog
@yes
@in_realm
@author
@as_json
@click.pass_obj
def delete(
    settings: Settings, name: str, catalog: str | None, yes: bool, realm: str, author: str | None, json_output: bool
) -> None:
    """Delete a role, with all that was granted to it."""
    confirmed(f"Delete role {name}?", yes)
    meta = write_meta(author)
    with access_kernel(settings, realm) as kernel:
        _roles(kernel, catalog).delete(name, meta=meta)
        grants = grants_of(kernel, catalog)
        for _ in range(TIDYING_PAGES_MAX):
            if grants.forget_role(name, meta=meta) is None:
                break
    if json_output:
        print_json({"deleted": name})


@command.command()
@click.argument("role")
@click.argument("member")
@of_catalog
@in_realm
@author
@as_json
@click.pass_obj
def assign(
    settings: Settings, role: str, member: str, catalog: str | None, realm: str, author: str | None, json_output: bool
) -> None:
    """Give a role to a principal, or with --catalog to a principal role."""
    with access_kernel(settings, realm) as kernel:
        _roles(kernel, catalog).assign(member, role, meta=write_meta(author))
    _told(f"{member} has {role}", {"role": role, "member": member}, json_output)


@command.command()
@click.argument("role")
@click.argument("member")
@of_catalog
@in_realm
@author
@as_json
@click.pass_obj
def revoke(
    settings: Settings, role: str, member: str, catalog: str | None, realm: str, author: str | None, json_output: bool
) -> None:
    """Take a role away again."""
    with access_kernel(settings, realm) as kernel:
        _roles(kernel, catalog).revoke(member, role, meta=write_meta(author))
    _told(f"{member} has {role} no more", {"role": role, "revoked": member}, json_output)


def _roles(kernel: RealmKernel, catalog: str | None) -> Roles:
    return principal_roles(kernel) if catalog is None else catalog_roles(kernel, catalog_id(kernel, catalog))


def _show(roles: list[Role], json_output: bool) -> None:
    if json_output:
        print_json(roles[0])
        return
    print_table(["role", "properties"], [(one.name, " ".join(f"{k}={v}" for k, v in one.properties.items())) for one in roles])


def _told(line: str, told: dict[str, str], json_output: bool) -> None:
    if json_output:
        print_json(told)
    else:
        echo(line)
