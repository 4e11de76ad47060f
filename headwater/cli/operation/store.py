"""`headwater store`: creates the schema of a store, or shows what its server promises."""

from __future__ import annotations

import msgspec
import rich_click as click

from headwater.cli.output import as_json, print_json, print_table
from headwater.persistence.backend import Durability, DurabilityLevel
from headwater.persistence.store import Store
from headwater.settings import Settings
from headwater.wiring.stores import opened_store, shown_url

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


@click.group()
def command() -> None:
    """Create a store, or show what it promises."""


@command.command()
@as_json
@click.pass_obj
def create(settings: Settings, json_output: bool) -> None:
    """Create the schema; what is there already stays as it is."""
    with opened_store(settings, create=True) as store:
        _show(settings, store, json_output)


@command.command()
@as_json
@click.pass_obj
def show(settings: Settings, json_output: bool) -> None:
    """Show backend, schema version and how durable the live server's settings are."""
    with opened_store(settings) as store:
        _show(settings, store, json_output)


def _show(settings: Settings, store: Store, json_output: bool) -> None:
    report = StoreReport(
        url=shown_url(settings.store),
        backend=store.backend.name,
        schema_version=store.backend.schema_version,
        durability=store.backend.durability(),
    )
    if json_output:
        print_json(report)
        return
    level = report.durability.level
    rows = [("store", report.url), ("backend", report.backend), ("schema version", report.schema_version)]
    rows += [("durability", f"{level.value}: {MEANINGS[level]}"), *report.durability.settings.items()]
    print_table(["property", "value"], [*rows, *(("note", warning) for warning in report.durability.warnings)])
