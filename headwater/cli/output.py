"""Prints results as tables or JSON on stdout, and errors as one line on stderr."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import NoReturn

import msgspec
import rich_click as click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from headwater.cli.plain_text import plain
from headwater.schemas.errors import HeadwaterError

EXIT_BAD_INPUT = 2

as_json = click.option("--json", "json_output", is_flag=True, help="Print JSON for machines.")
"""Every command that shows something takes it."""


def print_json(value: object) -> None:
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n")


def echo(text: str) -> None:
    """One or more lines for people; what came from outside cannot command the terminal."""
    click.echo(plain(text))


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[object]], *, title: str | None = None, whole: Sequence[str] = ()
) -> None:
    """Columns that are `whole` are never cut on a narrow terminal: ids that are to be typed or copied."""
    table = Table(title=title, title_justify="left", header_style="bold")
    for column in columns:
        table.add_column(column, no_wrap=column in whole, overflow="fold" if column in whole else "ellipsis")
    cells = [["" if cell is None else plain(str(cell)) for cell in row] for row in rows]
    for number, column in enumerate(columns):
        if column in whole:
            lines = [line for row in cells for line in row[number].splitlines()]
            table.columns[number].min_width = max(map(len, lines), default=0)
    for row in cells:
        table.add_row(*map(Text, row))  # as text: a key may look like markup
    Console().print(table)


def fail(error: HeadwaterError) -> NoReturn:
    """One line, no traceback."""
    fail_line(error.code, str(error))


def fail_usage(error: click.UsageError) -> NoReturn:
    """What the command line cannot mean, and where it is explained."""
    where = f" See `{error.ctx.command_path} --help`." if error.ctx else ""
    fail_line("USAGE", error.format_message() + where)


def fail_line(code: str, message: str) -> NoReturn:
    line = plain(" ".join(message.split()))
    Console(stderr=True, soft_wrap=True, highlight=False).print(Text.assemble(("error", "bold red"), f" {code}: {line}"))
    sys.exit(EXIT_BAD_INPUT)
