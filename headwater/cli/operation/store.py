"""`headwater store`: creates a store, announces that it was restored, or shows what it promises."""

from __future__ import annotations

import msgspec
import rich_click as click

from headwater.cli.output import as_json, print_json, print_table
from headwater.cli.target import the_store
from headwater.persistence.backend import Durability, DurabilityLevel
from headwater.persistence.coordination.incarnation import Incarnation
from headwater.persistence.coordination.restored_store import announce_restored
from headwater.persistence.store import Store
from headwater.schemas.entry_ids import time_text
from headwater.settings import Settings
from headwater.wiring.stores import shown_url

MEANINGS = {
    DurabilityLevel.DURABLE: "an acknowledged commit survives a kill of the server and a power cut",
    DurabilityLevel.WEAK: "ACKNOWLEDGED COMMITS MAY BE LOST",
    DurabilityLevel.VOLATILE: "nothing survives the process",
}


class StoreReport(msgspec.Struct, frozen=True, kw_only=True):
    url: str
    backend: str
    schema_version: int
    durability: Durability
    incarnation: Incarnation


@click.group()
def command() -> None:
    """Create a store, show its durability, or announce that it was restored."""


@command.command()
@as_json
@click.pass_obj
def create(settings: Settings, json_output: bool) -> None:
    """Create the schema; an existing one stays as it is."""
    with the_store(settings, create=True) as store:
        _show(settings, store, json_output)


@command.command()
@as_json
@click.pass_obj
def show(settings: Settings, json_output: bool) -> None:
    """Show backend, schema version and the durability of the live server's settings."""
    with the_store(settings) as store:
        _show(settings, store, json_output)


@command.command()
@click.option("--reason", default="restored by an operator", show_default=True, help="Shown by `store show` from then on.")
@as_json
@click.pass_obj
def restored(settings: Settings, reason: str, json_output: bool) -> None:
    """Announce that the store was restored from a backup.

    The store gets a new incarnation and each pointer a new version. Running processes discard their caches within
    seconds, and nothing that they had prepared is written. See docs/backup.md."""
    with the_store(settings) as store:
        done = announce_restored(store.backend, store.clock, reason)
    if json_output:
        print_json(done)
        return
    print_table(["property", "value"], [("incarnation", _shown(done.incarnation)), ("pointers", done.pointers)])


def _shown(incarnation: Incarnation) -> str:
    return f"{incarnation.id}, number {incarnation.number} since {time_text(incarnation.since)}: {incarnation.reason}"


def _show(settings: Settings, store: Store, json_output: bool) -> None:
    report = StoreReport(
        url=shown_url(settings.store),
        backend=store.backend.name,
        schema_version=store.backend.schema_version,
        durability=store.backend.durability(),
        incarnation=store.restores.incarnation,
    )
    if json_output:
        print_json(report)
        return
    level = report.durability.level
    rows = [("store", report.url), ("backend", report.backend), ("schema version", report.schema_version)]
    rows += [("incarnation", _shown(report.incarnation))]
    rows += [("durability", f"{level.value}: {MEANINGS[level]}"), *report.durability.settings.items()]
    print_table(["property", "value"], [*rows, *(("note", warning) for warning in report.durability.warnings)])
