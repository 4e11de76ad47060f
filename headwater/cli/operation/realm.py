"""`headwater realm`: moves realms along their life cycle, lists them, and moves them to other stores."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

import msgspec
import rich_click as click

from headwater.cli.access.record_commands import RecordTable
from headwater.cli.catalogs.changes_output import print_changes
from headwater.cli.operation import realm_transfer
from headwater.cli.output import as_json, confirmed, echo, print_json, print_table, show_done, show_secret, yes
from headwater.cli.target import at_server, direct_store, logs_of, managed_realms
from headwater.manage import ManagedRealms, NewRealm
from headwater.persistence.realms.realm_records import REALMS_POINTER
from headwater.persistence.rows import SYSTEM_REALM
from headwater.schemas.errors import InvalidInput
from headwater.schemas.filters import Filter
from headwater.schemas.http.manage_json import RealmInfo
from headwater.settings import Settings

REALMS = RecordTable[RealmInfo](
    "realms",
    ["realm", "status", "instance", "updated"],
    lambda one: (one.name, one.status, one.instance, f"{one.updated[:19]}Z"),
)

realm_name = click.argument("name")


@click.group()
def command() -> None:
    """Create, initialize, open, close, purge and delete realms; export them to files and import them.

    CREATED → INITIALIZING → ACTIVE ⇄ INACTIVE → PURGING → PURGED → deleted. Only an ACTIVE realm serves users.

    A server requires the credentials of a system administrator; `headwater principal bootstrap` creates the first.
    """


@command.command()
@realm_name
@click.option("--init", "initialize", is_flag=True, help="Initialize it too.")
@click.option("--description", default="", help="Text that is shown with it.")
@at_server
@as_json
@click.pass_obj
def create(settings: Settings, name: str, initialize: bool, description: str, json_output: bool) -> None:
    """Create a realm under a free name; `init` fills it."""
    with managed_realms(settings) as realms:
        made = realms.create(name, initialize=initialize, description=description)
    _show_new(made, json_output)


@command.command()
@realm_name
@click.option("--description", required=True, help="Text that is shown with it; empty to remove it.")
@at_server
@as_json
@click.pass_obj
def update(settings: Settings, name: str, description: str, json_output: bool) -> None:
    """Change the description of a realm, in any status."""
    with managed_realms(settings) as realms:
        described = realms.describe(name, description)
    _show(described, json_output)


@command.command()
@realm_name
@at_server
@as_json
@click.pass_obj
def init(settings: Settings, name: str, json_output: bool) -> None:
    """Fill a created realm and open it; shows the first principal's secret, once.

    After an interruption, call it again.
    """
    with managed_realms(settings) as realms:
        made = realms.init(name)
    _show_new(made, json_output)


@command.command("list")
@at_server
@as_json
@click.pass_obj
def list_realms(settings: Settings, json_output: bool) -> None:
    """Show all realms with their status."""
    with managed_realms(settings) as realms:
        found = list(realms.realms())
    REALMS.show_all(found, json_output)


@command.command()
@realm_name
@at_server
@as_json
@click.pass_obj
def show(settings: Settings, name: str, json_output: bool) -> None:
    """Show one realm; without --server, also its pointers."""
    if settings.server:
        with managed_realms(settings) as realms:
            found = realms.realm(name)
        _show(found, json_output)
        return
    from headwater.persistence.realms.realms import Realms
    from headwater.producer.record_views import realm_info

    with direct_store(settings) as store:
        report = Realms(store).show(name)
    if json_output:
        print_json({**msgspec.to_builtins(realm_info(report.realm)), "pointers": report.pointers})
        return
    _show(realm_info(report.realm), json_output=False)
    pointers = [(it.name, it.seq, "closed" if it.closed else "open") for it in report.pointers]
    print_table(["pointer", "seq", "accepts commits"], pointers)


@command.command()
@click.argument("name", required=False)
@click.option("--after", default="earliest", show_default=True, help="A commit id, a seq, a time, earliest or latest.")
@click.option("--follow", is_flag=True, help="Wait for further changes.")
@click.option("--limit", type=click.IntRange(1), help="Stop after this many changes.")
@at_server
@as_json
@click.pass_obj
def log(settings: Settings, name: str | None, after: str, follow: bool, limit: int | None, json_output: bool) -> None:
    """Show who created, opened, closed, purged and deleted realms, oldest first; with NAME, only of that realm.

    This is the pointer `realms` of `::system::`; `headwater subscribe --realm ::system::` reads its other logs.
    """
    wanted = Filter(prefix=(name,) if name else ())
    with logs_of(settings, SYSTEM_REALM) as logs:
        moves = logs.changes(REALMS_POINTER, after, follow=follow, filter=wanted)
        print_changes(islice(moves, limit), json_output=json_output)


def _move(verb: str, help: str, move: Callable[[ManagedRealms, str], RealmInfo]) -> None:
    @command.command(verb, help=help)
    @realm_name
    @at_server
    @as_json
    @click.pass_obj
    def run(settings: Settings, name: str, json_output: bool) -> None:
        with managed_realms(settings) as realms:
            moved = move(realms, name)
        REALMS.show(moved, json_output)


_move("activate", "Open an INACTIVE realm to its users.", lambda realms, name: realms.activate(name))
_move(
    "deactivate",
    "Close an ACTIVE realm: when this returns, no commit lands in it any more.",
    lambda realms, name: realms.deactivate(name),
)


@command.command()
@realm_name
@click.option("--finish", is_flag=True, help="Delete the data now instead of leaving it to maintenance; not with --server.")
@yes
@at_server
@as_json
@click.pass_obj
def purge(settings: Settings, name: str, finish: bool, yes: bool, json_output: bool) -> None:
    """Purge an INACTIVE realm: its data are deleted permanently."""
    if finish and settings.server:
        raise InvalidInput("a server leaves that to maintenance.", field="--finish", remedy="Leave out --finish or --server.")
    confirmed(f"Purge realm {name!r} with all its data?", yes)
    if finish:
        purged = _finish_purge(settings, name)
    else:
        with managed_realms(settings) as realms:
            purged = realms.purge(name)
    REALMS.show(purged, json_output)


@command.command()
@realm_name
@yes
@at_server
@as_json
@click.pass_obj
def delete(settings: Settings, name: str, yes: bool, json_output: bool) -> None:
    """Delete a PURGED or CREATED realm from the list; its name is free again."""
    confirmed(f"Delete realm {name!r}?", yes)
    with managed_realms(settings) as realms:
        realms.delete(name)
    show_done(f"realm {name} is deleted", {"deleted": name}, json_output)


for _other in realm_transfer.COMMANDS:
    command.add_command(_other)


def _finish_purge(settings: Settings, name: str) -> RealmInfo:
    from headwater.persistence.realms.realms import Realms
    from headwater.producer.record_views import realm_info
    from headwater.streaming.purge.purge import finish_purge
    from headwater.wiring.external_resources import external_resources

    with direct_store(settings) as store:
        realms = Realms(store)
        realm = realms.get(name)
        resources = external_resources(store, settings)
        for kind in resources:  # before there is no way back
            kind.check([realm.instance])
        if realm.status != "PURGING":
            realm = realms.purge(name)
        finish_purge(store, realm, resources)
        return realm_info(realms.get(name))


def _show(realm: RealmInfo, json_output: bool) -> None:
    REALMS.show(realm, json_output)
    if realm.description and not json_output:
        echo(f"description    {realm.description}")


def _show_new(made: NewRealm, json_output: bool) -> None:
    if made.credentials is None:
        REALMS.show(made.realm, json_output)
    elif json_output:
        print_json({**msgspec.to_builtins(made.realm), **msgspec.to_builtins(made.credentials)})
    else:
        REALMS.show(made.realm, json_output=False)
        echo(f"principal      {made.credentials.principal}")
        show_secret(made.credentials)
