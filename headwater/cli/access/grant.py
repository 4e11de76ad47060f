"""`headwater grant`: grants rights to roles, over a realm, a catalog or a path of it, and revokes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import rich_click as click

from headwater.cli.access.record_commands import (
    RealmTarget,
    RecordTable,
    at_path,
    list_command,
    of_catalog,
    writes_realm,
)
from headwater.cli.output import as_json, print_json, print_table, show_done
from headwater.cli.target import key_of, key_text
from headwater.manage import ManagedRealm
from headwater.producer.access.rights import REALM_ONLY, Right, implied_by
from headwater.schemas.change import KeyPath
from headwater.schemas.http.manage_json import GrantInfo

GRANTS = RecordTable[GrantInfo](
    "grants", ["role", "right", "path"], lambda one: (one.role, one.right, key_text(tuple(one.path)))
)
Act = Callable[[ManagedRealm, str, str, KeyPath, str | None], object]


@click.group()
def command() -> None:
    """Grant rights to roles, and revoke them.

    Over the realm a right is granted to a principal role; over a catalog (--catalog), or a path of it, to a catalog role.
    """


def _granting(verb: str, help: str, act: Act, show: Callable[[str, str, KeyPath, object, bool], None]) -> None:
    """`add` and `revoke` differ in what they call and say."""

    @command.command(verb, help=help)
    @click.argument("role")
    @click.argument("right")
    @of_catalog
    @at_path
    @writes_realm
    def run(at: RealmTarget, role: str, right: str, catalog: str | None, path_text: str) -> None:
        path = key_of(path_text)
        with at.managed() as manage:
            outcome = act(manage, role, right, path, catalog)
        show(role, right, path, outcome, at.json_output)


def _show_added(role: str, right: str, path: KeyPath, changed: object, json_output: bool) -> None:
    line = f"{role} has {right}" if changed else f"{role} had {right} already"
    show_done(line, {"role": role, "right": right, "path": path, "changed": changed}, json_output)


def _show_revoked(role: str, right: str, path: KeyPath, _: object, json_output: bool) -> None:
    show_done(f"{role} has {right} no more", {"role": role, "revoked": right, "path": path}, json_output)


_granting(
    "add",
    "Grant a right to a role.",
    lambda manage, role, right, path, catalog: manage.grant(role, right, path, catalog),
    _show_added,
)
_granting(
    "revoke",
    "Revoke this grant; what another grant implies stays.",
    lambda manage, role, right, path, catalog: manage.revoke_grant(role, right, path, catalog),
    _show_revoked,
)


def _all_grants(manage: ManagedRealm, catalog: str | None) -> Iterator[GrantInfo]:
    for role in manage.roles(catalog):
        yield from manage.grants(role.name, catalog)


list_command(command, GRANTS, "Show what was granted, in order of role.", _all_grants, of_catalog)


@command.command()
@as_json
def rights(json_output: bool) -> None:
    """Show all rights, and what each implies."""
    implied = {str(right): sorted(map(str, implied_by(right) - {right})) for right in Right}
    if json_output:
        print_json({"rights": implied})
        return
    rows = [
        (right, "realm" if Right(right) in REALM_ONLY else "realm, catalog, path", ", ".join(implied[right]))
        for right in implied
    ]
    print_table(["right", "over", "implies"], rows, prose=["implies"])
