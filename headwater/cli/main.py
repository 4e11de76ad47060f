"""The `headwater` command: each sub-command is a module of its own and is imported only when it is called."""

from __future__ import annotations

import importlib
import sys

import rich_click as click

from headwater import __version__
from headwater.cli.output import fail, fail_line, fail_usage
from headwater.schemas.errors import HeadwaterError
from headwater.schemas.extras import needs_extra
from headwater.settings import load_settings

EXIT_ABORTED = 1
EXIT_INTERRUPTED = 130

COMMANDS: dict[str, tuple[str, str]] = {
    "demo": ("operation", "Run several writers and a follower, kill one with -9, and check that nothing is lost."),
    "up": ("operation", "Run the whole system on this machine: store, Kafka, registry, server, publisher, views, stream."),
    "serve": ("operation", "Serve the feed over HTTP: changes, streams, snapshots, subscriptions, commits."),
    "publish": ("feed", "Publish every change to Kafka, once and in order."),
    "subscribe": ("feed", "Print verified changes of a server, of Kafka or of the store."),
    "catalog": ("catalogs", "Create, list, update and drop the catalogs of a realm."),
    "commit": ("catalogs", "Commit operations to a branch, all or none."),
    "log": ("catalogs", "Show the commits of a branch, newest first."),
    "reflog": ("catalogs", "Show every move of every branch and tag of a catalog, newest first."),
    "changes": ("catalogs", "Show every change after a cursor, oldest first, and follow."),
    "snapshot": ("catalogs", "Show all keys and contents at a branch, tag or commit."),
    "diff": ("catalogs", "Show the keys at which two references differ."),
    "branch": ("catalogs", "Create, list, show, assign and delete branches."),
    "tag": ("catalogs", "Create, list, show, assign and delete tags."),
    "merge": ("catalogs", "Merge one branch into another, as one commit."),
    "transplant": ("catalogs", "Copy single commits to a branch."),
    "views": ("feed", "Keep live views of a realm from Kafka, and serve them over HTTP."),
    "webhook": ("feed", "Post signed changes to a URL, and retry until they are accepted."),
    "audit": ("feed", "Verify, replay, compare and export history."),
    "maintain": ("maintenance", "Expire history, sweep unreachable data, purge realms, archive history."),
    "stream": ("maintenance", "Maintain every realm of a store on Spark, in one long-running application."),
    "executor": ("maintenance", "Run a Spark executor on Kubernetes; Spark starts it."),
    "dev": ("operation", "Run real Kafka, Cassandra, PostgreSQL and schema registry on this machine."),
    "principal": ("access", "Create, list, rotate and delete the principals of a realm."),
    "role": ("access", "Create roles, and assign them to principals."),
    "grant": ("access", "Grant rights to roles, and revoke them."),
    "policy": ("access", "Create policies, and map them to what they apply to."),
    "connector": ("connectors", "Bridge other catalogs into a branch, commit by commit."),
    "reconcile": ("connectors", "Reconcile connectors in a separate process."),
    "realm": ("operation", "Create, initialize, open, close, purge and delete realms; export and import them."),
    "token": ("access", "Fetch a token from a server, for curl and other programs."),
    "store": ("operation", "Create a store, show its durability, or announce a restore."),
    "settings": ("operation", "Show every setting, its value and its meaning."),
}
"""Sub-command → its folder and its line in the list; its code is `headwater.cli.<folder>.<name>:command`."""


class LazyCommands(click.RichGroup):
    """Lists commands from `COMMANDS` and imports only the one that is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """For lists: name and one line of help, without importing the command."""
        if cmd_name not in COMMANDS:
            return None
        return click.RichCommand(name=cmd_name, help=COMMANDS[cmd_name][1])

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        name, command, rest = super().resolve_command(ctx, args)
        return name, load_command(name) if name and command else command, rest


def load_command(name: str) -> click.Command:
    """The command itself, with its options and sub-commands."""
    folder, _ = COMMANDS[name]
    command: click.Command = importlib.import_module(f"headwater.cli.{folder}.{name}").command
    command.name = name
    return command


@click.group(cls=LazyCommands, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--store", metavar="URL", help="The store, e.g. sqlite:///lake.db.")
@click.option("--server", metavar="URL", help="Use this server instead of opening the store, e.g. http://127.0.0.1:8181.")
@click.option("--config", metavar="FILE", help="TOML file with settings; ./headwater.toml if it exists.")
@click.option("--set", "assignments", metavar="NAME=VALUE", multiple=True, help="Any other setting.")
@click.version_option(__version__, prog_name="headwater")
@click.pass_context
def headwater(
    ctx: click.Context, store: str | None, server: str | None, config: str | None, assignments: tuple[str, ...]
) -> None:
    """Headwater: the change feed that begins at your catalog's HEAD."""
    if store is not None and server is None:
        server = ""  # a store that was named wins over a server of the environment
    flags: dict[str, object] = {"store": store, "server": server}
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if not equals:
            raise click.BadParameter(f"{assignment!r} is not NAME=VALUE.", param_hint="--set")
        flags[name] = value
    ctx.obj = load_settings(flags, config=config)


def main() -> None:
    """An error of the caller, or a package that is not installed, is one line on stderr and exit code 2."""
    try:
        with needs_extra("this command"):
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
    """A question that was not answered with yes, or Ctrl-C."""
    if isinstance(aborted.__context__, KeyboardInterrupt):
        return EXIT_INTERRUPTED
    click.echo("Aborted.", err=True)
    return EXIT_ABORTED
