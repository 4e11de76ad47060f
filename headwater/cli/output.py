"""Prints results as tables or JSON on stdout, and errors as one line on stderr."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NoReturn

import msgspec
import rich_click as click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from headwater.cli.plain_text import plain
from headwater.schemas.errors import HeadwaterError

if TYPE_CHECKING:
    from headwater.schemas.http.manage_json import SecretShown

EXIT_BAD_INPUT = 2
WIDTH_MAX = 100_000

JSON_FLAG = "--json"

as_json = click.option(JSON_FLAG, "json_output", is_flag=True, help="Print JSON for machines.")
"""Every command that shows something takes it."""


def print_json(value: object) -> None:
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n")


def echo(text: str) -> None:
    """One or more lines for people; what came from outside cannot command the terminal."""
    click.echo(plain(text))


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[object]], *, title: str | None = None, prose: Sequence[str] = ()
) -> None:
    """Nothing is cut: cells are names that one copies. Columns of `prose` may be wrapped on a terminal; where the others do not
    fit side by side, each row is printed as a list of its cells. In a pipe a table is as wide as it needs to be."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=WIDTH_MAX)
    cells = [["" if cell is None else plain(str(cell)) for cell in row] for row in rows]
    table = Table(title=title, title_justify="left", header_style="bold")
    for column in columns:
        table.add_column(column, no_wrap=column not in prose, overflow="fold")
    for row in cells:
        table.add_row(*map(Text, row))  # as text: a key may look like markup
    if table.__rich_measure__(console, console.options.update(max_width=WIDTH_MAX)).minimum <= console.width:
        console.print(table)
        return
    if title is not None:
        echo(title)
    width = max(map(len, columns))
    for row in cells:
        echo("\n".join(f"{column:<{width}}  {cell}" for column, cell in zip(columns, row, strict=True)) + "\n")


yes = click.option("--yes", is_flag=True, help="Do not ask.")


def confirmed(question: str, yes: bool) -> None:
    """Exit code 1 and nothing done unless the answer is yes, or if no question can be asked."""
    if not yes:
        click.confirm(question, abort=True, err=True)


def show_done(line: str, facts: Mapping[str, object], json_output: bool) -> None:
    if json_output:
        print_json(facts)
    else:
        echo(line)


def show_secret(credentials: SecretShown) -> None:
    """Not in a table: it must be copied whole."""
    echo(f"client id      {credentials.client_id}\nclient secret  {credentials.client_secret}")
    echo("The secret is not stored and is not shown again.")


def fail(error: HeadwaterError) -> NoReturn:
    """One line, no traceback; with --json, the error as an object."""
    fail_line(error.code, str(error), message=error.message, field=error.field, remedy=error.remedy, facts=error.facts)


def fail_usage(error: click.UsageError) -> NoReturn:
    """What the command line cannot mean, and where it is explained."""
    where = f" See `{error.ctx.command_path} --help`." if error.ctx else ""
    fail_line("USAGE", error.format_message() + where)


def fail_line(code: str, text: str, **more: object) -> NoReturn:
    line = plain(" ".join(text.split()))
    if JSON_FLAG in sys.argv:
        facts = {name: value for name, value in more.items() if value}
        sys.stderr.write(msgspec.json.encode({"error": {"code": code, "message": line, **facts}}).decode() + "\n")
    else:
        console = Console(stderr=True, soft_wrap=True, highlight=False)
        console.print(Text.assemble(("error", "bold red"), f" {code}: {line}"))
    sys.exit(EXIT_BAD_INPUT)
