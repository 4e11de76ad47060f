"""`headwater settings`: the settings in force enter; a table of value and meaning leaves."""

from __future__ import annotations

import typing

import msgspec
import rich_click as click

from headwater.cli.output import as_json, print_json, print_table
from headwater.settings import ENV_PREFIX, Settings


@click.command()
@as_json
@click.pass_obj
def command(settings: Settings, json_output: bool) -> None:
    """Show every setting, its value and its meaning.

    A value comes from the first that has it: a flag (--store, --set NAME=VALUE), a HEADWATER_* variable, the TOML file, the
    default.
    """
    if json_output:
        print_json(settings)
        return
    meanings = setting_meanings()
    print_table(
        ["setting", "variable", "value", "meaning"],
        [(name, ENV_PREFIX + name.upper(), getattr(settings, name), meanings[name]) for name in meanings],
    )


def setting_meanings() -> dict[str, str]:
    hints = typing.get_type_hints(Settings, include_extras=True)
    metas = {name: next(m for m in hints[name].__metadata__ if isinstance(m, msgspec.Meta)) for name in hints}
    return {name: str(meta.description) for name, meta in metas.items()}
