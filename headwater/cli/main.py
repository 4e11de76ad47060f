"""The `headwater` command: each sub-command lives in a module of its own and is loaded only when it is called."""

from __future__ import annotations

import importlib
import sys

import rich_click as click

from headwater import __version__
from headwater.cli.output import fail, fail_line, fail_usage
from headwater.schemas.errors import HeadwaterError
from headwater.settings import load_settings

EXIT_ABORTED = 1
EXIT_INTERRUPTED = 130

COMMANDS: dict[str, str] = {
    "demo": "Show it: several writers, one follower, one kill -9, and nothing is lost.",
    "serve": "Serve the feed over HTTP: changes, streams, snapshots, subscriptions, commits.",
    "publish": "Publish every change to Kafka, once and in order.",
    "subscribe": "Print changes of a server, of Kafka or of the store, checked.",
    "catalog": "Create, list, update and drop the catalogs of a realm.",
    "commit": "Commit operations to a branch, all or none.",
    "log": "Show the commits of a branch, newest first.",
    "changes": "Show every change behind a cursor, oldest first, and follow.",
    "snapshot": "Show all keys and contents at a branch, tag or commit.",
    "diff": "Show the keys at which two references differ.",
    "branch": "Create, list, show, assign and delete branches.",
    "tag": "Create, list, show, assign and delete tags.",
    "merge": "Bring what one branch changed into another, as one commit.",
    "transplant": "Bring single commits over to a branch.",
    "webhook": "Send changes to an address, signed, and again until they are taken.",
    "audit": "Verify, replay, compare and export history.",
    "maintain": "Expire history, sweep what nothing reaches, purge realms, archive and replay.",
    "dev": "Run real Kafka, Cassandra, PostgreSQL and schema registry on this machine.",
    "principal": "Create, list, rotate and delete the principals of a realm.",
    "role": "Create roles, and give them to principals.",
    "grant": "Grant rights to roles, and revoke them.",
    "policy": "Keep policies, and map them to what they apply to.",
    "realm": "Create, initialize, open, close, purge and delete realms.",
    "store": "Create a store, or show what it promises.",
    "settings": "Show every setting, its value and its meaning.",
}
"""Sub-command → one line of help; its code is `headwater.cli.<folder>.<name>:command`."""

_COMMANDS_BY_FOLDER = {
    "catalogs": "catalog commit log changes snapshot diff branch tag merge transplant",
    "access": "principal role grant policy",
    "feed": "publish subscribe webhook audit",
    "maintenance": "maintain",
    "operation": "demo serve dev realm store settings",
}
FOLDERS = {name: folder for folder, names in _COMMANDS_BY_FOLDER.items() for name in names.split()}


class LazyCommands(click.RichGroup):
    """Starting the command must not import every database driver."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"headwater.cli.{FOLDERS[cmd_name]}.{cmd_name}")
        command: click.Command = module.command
        command.name = cmd_name
        command.short_help = command.short_help or COMMANDS[cmd_name]
        return command


@click.group(cls=LazyCommands, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--store", metavar="URL", help="Where the catalog is kept, e.g. sqlite:///lake.db.")
@click.option("--config", metavar="FILE", help="TOML file with settings; ./headwater.toml if it exists.")
@click.option("--set", "assignments", metavar="NAME=VALUE", multiple=True, help="Any other setting.")
@click.version_option(__version__, prog_name="headwater")
@click.pass_context
def headwater(ctx: click.Context, store: str | None, config: str | None, assignments: tuple[str, ...]) -> None:
    """Headwater: the change feed that begins at your catalog's HEAD."""
    flags: dict[str, object] = {"store": store}
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if not equals:
            raise click.BadParameter(f"{assignment!r} is not NAME=VALUE.", param_hint="--set")
        flags[name] = value
    ctx.obj = load_settings(flags, config=config)


def main() -> None:
    """Whatever the caller got wrong is one line on stderr and exit code 2."""
    try:
        code = headwater(prog_name="headwater", standalone_mode=False)
    except HeadwaterError as error:
        fail(error)
    except click.UsageError as error:
        fail_usage(error)
    except click.ClickException as error:
        fail_line("USAGE", error.format_message())
    except click.Abort as aborted:
        sys.exit(_exit_of(aborted))
    if isinstance(code, int):
        sys.exit(code)


def _exit_of(aborted: click.Abort) -> int:
    """A question that nobody said yes to, or Ctrl-C."""
    if isinstance(aborted.__context__, KeyboardInterrupt):
        return EXIT_INTERRUPTED
    click.echo("Aborted.", err=True)
    return EXIT_ABORTED
