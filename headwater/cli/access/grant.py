"""`headwater grant`: grants rights to roles, over a realm, a catalog or a path of it, and revokes them."""

from __future__ import annotations

import rich_click as click

from headwater.cli.access.access_target import access_kernel, at_path, every, grants_of, of_catalog, path_of, write_meta
from headwater.cli.output import as_json, echo, print_json, print_table
from headwater.cli.target import author, in_realm
from headwater.producer.access.rights import REALM_ONLY, Right, implied_by, right_of
from headwater.settings import Settings


@click.group()
def command() -> None:
    """Grant rights to roles, and revoke them.

    Over the realm a right is granted to a principal role; over a catalog (--catalog), or a path of it, to a catalog role.
    """


@command.command()
@click.argument("role")
@click.argument("right")
@of_catalog
@at_path
@in_realm
@author
@as_json
@click.pass_obj
def add(
    settings: Settings,
    role: str,
    right: str,
    catalog: str | None,
    path_text: str,
    realm: str,
    author: str | None,
    json_output: bool,
) -> None:
    """Grant a right to a role."""
    with access_kernel(settings, realm) as kernel:
        grants = grants_of(kernel, catalog)
        written = grants.grant(role, right_of(right), path_of(path_text), meta=write_meta(author))
    if json_output:
        print_json({"role": role, "right": right, "path": path_of(path_text), "changed": written.mutation.changed})
    else:
        echo(f"{role} has {right}" if written.mutation.changed else f"{role} had {right} already")


@command.command()
@click.argument("role")
@click.argument("right")
@of_catalog
@at_path
@in_realm
@author
@as_json
@click.pass_obj
def revoke(
    settings: Settings,
    role: str,
    right: str,
    catalog: str | None,
    path_text: str,
    realm: str,
    author: str | None,
    json_output: bool,
) -> None:
    """Take just that grant away; what another one implies stays."""
    with access_kernel(settings, realm) as kernel:
        grants_of(kernel, catalog).revoke(role, right_of(right), path_of(path_text), meta=write_meta(author))
    if json_output:
        print_json({"role": role, "revoked": right, "path": path_of(path_text)})
    else:
        echo(f"{role} has {right} no more")


@command.command("list")
@of_catalog
@in_realm
@as_json
@click.pass_obj
def list_grants(settings: Settings, catalog: str | None, realm: str, json_output: bool) -> None:
    """Show what was granted, in order of role."""
    with access_kernel(settings, realm) as kernel:
        grants = grants_of(kernel, catalog)
        found = every(lambda last: grants.list(after=last))
    if json_output:
        print_json({"grants": [{"role": one.role, "right": one.right, "path": one.path} for one in found]})
    else:
        print_table(["role", "right", "path"], [(one.role, one.right, ".".join(one.path)) for one in found])


@command.command()
@as_json
def rights(json_output: bool) -> None:
    """Show all rights, and what each brings along."""
    told = {str(right): sorted(map(str, implied_by(right) - {right})) for right in Right}
    if json_output:
        print_json({"rights": told})
        return
    rows = [
        (right, "realm" if Right(right) in REALM_ONLY else "realm, catalog, path", ", ".join(told[right])) for right in told
    ]
    print_table(["right", "over", "brings along"], rows)
