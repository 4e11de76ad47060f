"""`headwater dev`: starts, stops and lists real local servers."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import rich_click as click

from headwater.cli.output import as_json, print_json, print_table
from headwater.dev import fleet
from headwater.dev.kinds import KINDS, USUAL
from headwater.dev.progress import live_reports
from headwater.dev.server import Server
from headwater.schemas.errors import ServerFailed
from headwater.settings import Settings

server_names = click.argument("servers", nargs=-1, type=click.Choice(list(KINDS)), metavar="[SERVER]...")


@click.group()
def command() -> None:
    """Run real servers as local processes: kafka, cassandra, postgres, registry, nessie, hive; kafka-secure and
    cassandra-secure ask for TLS.

    Each listens on a free port of 127.0.0.1 and has its own data folder. Jars are fetched once.
    """


@command.command()
@server_names
@as_json
@click.pass_obj
def up(settings: Settings, servers: tuple[str, ...], json_output: bool) -> None:
    """Start the named servers, or the four usual ones; running servers are left alone."""
    names = servers or USUAL
    try:
        with live_reports(names) as report_for:
            started = fleet.up(names, Path(settings.dev_dir), Path(settings.jar_cache_dir), report_for)
    except ServerFailed as error:
        if log_tail := error.facts.get("log_tail"):
            click.echo(log_tail, err=True)
        raise
    _show(started, json_output)


@command.command()
@as_json
@click.pass_obj
def status(settings: Settings, json_output: bool) -> None:
    """Show every server with its state, address, process and data folder."""
    _show(fleet.status(Path(settings.dev_dir)), json_output)


@command.command()
@server_names
@click.option("--delete", is_flag=True, help="Delete their data and passwords too.")
@as_json
@click.pass_obj
def down(settings: Settings, servers: tuple[str, ...], delete: bool, json_output: bool) -> None:
    """Stop the named servers, or all of them; their data stay."""
    _show(fleet.down(servers, Path(settings.dev_dir), delete=delete), json_output)


@command.command()
@click.argument("server", type=click.Choice(list(KINDS)), metavar="SERVER")
@click.pass_obj
def url(settings: Settings, server: str) -> None:
    """Print a server's URL, with the password: headwater --store "$(headwater dev url postgres)" …"""
    sys.stdout.write(Server(server, Path(settings.dev_dir)).url + "\n")


def _show(servers: Sequence[fleet.ServerStatus], json_output: bool) -> None:
    if json_output:
        print_json(servers)
        return
    columns = ["server", "state", "address", "pid", "data"]
    print_table(columns, [(it.name, it.state, it.address, it.pid, it.data_dir) for it in servers])
