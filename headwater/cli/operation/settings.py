"""`headwater settings`: shows every setting with its value and meaning."""

from __future__ import annotations

import typing
from pathlib import Path

import msgspec
import rich_click as click

from headwater.cli.output import as_json, echo, print_json, print_table
from headwater.settings import ENV_PREFIX, SECRETS, Settings
from headwater.wiring.stores import shown_url


@click.command()
@click.option("--markdown", is_flag=True, help="Print the table of docs/settings.md.")
@as_json
@click.pass_obj
def command(settings: Settings, markdown: bool, json_output: bool) -> None:
    """Show every setting, its value and its meaning.

    A value comes from the first source that has it: a flag (--store, --set NAME=VALUE), a HEADWATER_* variable, the TOML
    file, the default.
    """
    if markdown:
        echo(settings_markdown())
        return
    hidden = {name: "***" for name in SECRETS if getattr(settings, name)}
    settings = msgspec.structs.replace(settings, store=shown_url(settings.store), **hidden)
    if json_output:
        print_json(settings)
        return
    meanings = setting_meanings()
    print_table(
        ["setting", "variable", "value", "meaning"],
        [(name, ENV_PREFIX + name.upper(), getattr(settings, name), meanings[name]) for name in meanings],
        prose=["meaning"],
    )


def setting_meanings() -> dict[str, str]:
    hints = typing.get_type_hints(Settings, include_extras=True)
    metas = {name: next(m for m in hints[name].__metadata__ if isinstance(m, msgspec.Meta)) for name in hints}
    return {name: str(meta.description) for name, meta in metas.items()}


def settings_markdown() -> str:
    """The one table of settings in the docs: every setting with its default, whoever runs this."""
    meanings, defaults = setting_meanings(), Settings()
    rows = [
        f"| `{name}` | `{ENV_PREFIX}{name.upper()}` | `{_default(getattr(defaults, name))}` | {meaning}. |"
        for name, meaning in meanings.items()
    ]
    return "\n".join(["| setting | variable | default | meaning |", "|---|---|---|---|", *rows])


def _default(value: object) -> str:
    return str(value).replace(str(Path.home()), "~", 1) if isinstance(value, str) else str(value)
