"""The token that the running command sends to a server, from the settings."""

from __future__ import annotations

import rich_click as click

from headwater.settings import Settings


def server_token() -> str:
    """Empty where none is set: a server under `--dev` asks for none."""
    context = click.get_current_context(silent=True)
    settings = None if context is None else context.find_object(Settings)
    return "" if settings is None else settings.server_token
