"""`headwater realm`: moves realms along their life cycle, and lists them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
import rich_click as click

from headwater.cli.output import as_json, echo, print_json, print_table
from headwater.persistence.realms.realm_records import Realm
from headwater.persistence.realms.realms import InitializedRealm, RealmPointer, Realms
from headwater.schemas.entry_ids import time_text
from headwater.settings import Settings
from headwater.wiring.stores import opened_store

PAGE_REALMS = 1_000
SECONDS_END = len("2026-01-31T12:00:00")
"""Tables leave the microseconds to JSON."""

realm_name = click.argument("name")
yes = click.option("--yes", is_flag=True, help="Do not ask.")


class RealmView(msgspec.Struct, frozen=True, kw_only=True):
    """A realm for readers."""

    name: str
    status: str
    instance: str
    created_at: str
    updated_at: str


class InitializedView(RealmView, frozen=True, kw_only=True):
    principal: str
    client_id: str
    client_secret: str


class DetailedView(RealmView, frozen=True, kw_only=True):
    pointers: list[RealmPointer]


@click.group()
def command() -> None:
    """Create, initialize, open, close, purge and delete realms.

    CREATED → INITIALIZING → ACTIVE ⇄ INACTIVE → PURGING → PURGED → deleted. Only an ACTIVE realm serves users.
    """


@command.command()
@realm_name
@click.option("--init", "initialize", is_flag=True, help="Initialize it too.")
@as_json
@click.pass_obj
def create(settings: Settings, name: str, initialize: bool, json_output: bool) -> None:
    """Take a name for a new realm; `init` fills it."""
    with opened_store(settings) as store:
        realm = Realms(store).create(name)
        if initialize:
            _show_initialized(Realms(store).init(name), json_output)
        else:
            _show([realm], json_output)


@command.command()
@realm_name
@as_json
@click.pass_obj
def init(settings: Settings, name: str, json_output: bool) -> None:
    """Fill a created realm and open it; shows the first principal's secret, once.

    After an interruption, call it again.
    """
    with opened_store(settings) as store:
        _show_initialized(Realms(store).init(name), json_output)


@command.command("list")
@as_json
@click.pass_obj
def list_realms(settings: Settings, json_output: bool) -> None:
    """Show all realms with their status."""
    with opened_store(settings) as store:
        realms = Realms(store)
        found = page = realms.list(limit=PAGE_REALMS)
        while len(page) == PAGE_REALMS:
            page = realms.list(after=page[-1].name, limit=PAGE_REALMS)
            found = [*found, *page]
    views = [_view(realm) for realm in found]
    if json_output:
        print_json({"realms": views})
    else:
        _print_views(views)


@command.command()
@realm_name
@as_json
@click.pass_obj
def show(settings: Settings, name: str, json_output: bool) -> None:
    """Show one realm and its pointers."""
    with opened_store(settings) as store:
        report = Realms(store).show(name)
    if json_output:
        view = msgspec.structs.asdict(_view(report.realm))
        print_json(DetailedView(**view, pointers=report.pointers))
        return
    _print_views([_view(report.realm)])
    pointers = [(it.name, it.seq, "closed" if it.closed else "open") for it in report.pointers]
    print_table(["pointer", "seq", "takes commits"], pointers)


@command.command()
@realm_name
@as_json
@click.pass_obj
def activate(settings: Settings, name: str, json_output: bool) -> None:
    """Open an INACTIVE realm to its users."""
    _move(settings, json_output, lambda realms: realms.activate(name))


@command.command()
@realm_name
@as_json
@click.pass_obj
def deactivate(settings: Settings, name: str, json_output: bool) -> None:
    """Close an ACTIVE realm: when this returns, no commit lands in it any more."""
    _move(settings, json_output, lambda realms: realms.deactivate(name))


@command.command()
@realm_name
@click.option("--finish", is_flag=True, help="Delete the data now, instead of leaving that to maintenance.")
@yes
@as_json
@click.pass_obj
def purge(settings: Settings, name: str, finish: bool, yes: bool, json_output: bool) -> None:
    """Give up an INACTIVE realm: its data are deleted, and nothing brings them back."""
    from headwater.streaming.purge.purge import finish_purge
    from headwater.wiring.external_resources import external_resources

    _confirm(f"Purge realm {name!r} with all its data?", yes)

    with opened_store(settings) as store:
        realms = Realms(store)
        realm = realms.get(name)
        belongings = external_resources(store, settings) if finish else []
        for kind in belongings:  # before there is no way back
            kind.check([realm.instance])
        if not finish or realm.status != "PURGING":
            realm = realms.purge(name)
        if finish:
            finish_purge(store, realm, belongings)
            realm = realms.get(name)
    _show([realm], json_output)


@command.command()
@realm_name
@yes
@as_json
@click.pass_obj
def delete(settings: Settings, name: str, yes: bool, json_output: bool) -> None:
    """Take a PURGED or CREATED realm from the list; its name is free again."""
    _confirm(f"Delete realm {name!r}?", yes)
    with opened_store(settings) as store:
        Realms(store).delete(name)
    if json_output:
        print_json({"deleted": name})


def _move(settings: Settings, json_output: bool, move: Callable[[Realms], Realm]) -> None:
    with opened_store(settings) as store:
        _show([move(Realms(store))], json_output)


def _confirm(question: str, yes: bool) -> None:
    """Exit code 1 and nothing done unless the answer is yes; also where there is nobody to ask."""
    if not yes:
        click.confirm(question, abort=True, err=True)


def _show(realms: Sequence[Realm], json_output: bool) -> None:
    views = [_view(realm) for realm in realms]
    if json_output:
        print_json(views[0])
    else:
        _print_views(views)


def _show_initialized(done: InitializedRealm, json_output: bool) -> None:
    view = InitializedView(
        **msgspec.structs.asdict(_view(done.realm)),
        principal=done.principal,
        client_id=done.client_id,
        client_secret=done.client_secret,
    )
    if json_output:
        print_json(view)
        return
    _print_views([view])
    # Not in a table: a narrow terminal would cut what is never shown again.
    echo(f"principal      {view.principal}\nclient id      {view.client_id}\nclient secret  {view.client_secret}")
    echo("The secret is not stored and is not shown again.")


def _print_views(views: Sequence[RealmView]) -> None:
    columns = ["realm", "status", "instance", "since"]
    print_table(columns, [(it.name, it.status, it.instance, f"{it.updated_at[:SECONDS_END]}Z") for it in views])


def _view(realm: Realm) -> RealmView:
    return RealmView(
        name=realm.name,
        status=realm.status,
        instance=realm.instance,
        created_at=time_text(realm.created_at),
        updated_at=time_text(realm.updated_at),
    )
