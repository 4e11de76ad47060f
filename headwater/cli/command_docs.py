"""Prints docs/commands.md, with every command, argument and option. A test compares the page with it."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import rich_click as click

from headwater.cli.main import COMMANDS, headwater, load_command

INTRODUCTION = """# Commands

`headwater` (also `python -m headwater`) takes `--store URL`, `--config FILE` and `--set NAME=VALUE` before the command; see
[settings.md](settings.md). An error is one line on stderr and exit code 2. Exit code 1 means that you answered a question
with no, that a check failed (`demo`, `audit`, `maintain check`), or that something is left for the next run.

`python -m headwater.cli.command_docs` prints this page, and a test compares it with the commands."""


def commands_markdown() -> str:
    """The whole page."""
    root = click.Context(headwater, info_name="headwater")
    sections = [INTRODUCTION]
    for name in COMMANDS:
        command = load_command(name)
        sections += _sections(command, click.Context(command, info_name=name, parent=root), level=2)
    return "\n\n".join(sections) + "\n"


def _sections(command: click.Command, context: click.Context, level: int) -> Iterator[str]:
    yield "\n\n".join(_section(command, context, level))
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            if below is not None:
                yield from _sections(below, click.Context(below, info_name=name, parent=context), level + 1)


def _section(command: click.Command, context: click.Context, level: int) -> Iterator[str]:
    yield f"{'#' * level} {context.command_path}"
    if command.help:
        yield inspect.cleandoc(command.help)
    if isinstance(command, click.Group):
        return
    yield f"```\n{' '.join([context.command_path, *command.collect_usage_pieces(context)])}\n```"
    options = [option for option in command.params if isinstance(option, click.Option) and not option.hidden]
    if options:
        rows = [f"| `{_names(option)}` | {_meaning(option)} |" for option in options]
        yield "\n".join(["| option | |", "|---|---|", *rows])


def _names(option: click.Option) -> str:
    names = ", ".join([*option.opts, *option.secondary_opts])
    if option.is_flag:
        return names
    choices = option.type.choices if isinstance(option.type, click.Choice) else ()
    kind = "N" if option.type.name.startswith(("integer", "float")) else option.type.name.upper()
    return f"{names} {option.metavar or '/'.join(map(str, choices)) or kind}"


def _meaning(option: click.Option) -> str:
    many = " May be repeated." if option.multiple and "repeat" not in (option.help or "") else ""
    default = f" Default `{option.default}`." if option.show_default and option.default not in (None, "", ()) else ""
    return f"{option.help or ''}{many}{default}".strip()


if __name__ == "__main__":
    click.echo(commands_markdown(), nl=False)
