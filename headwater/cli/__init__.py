"""The `headwater` command: one module for each sub-command, imported when it is called.

Read main, output, plain_text, target, change_filter; then catalogs/, access/, feed/, maintenance/, connectors/ and
operation/. command_docs prints docs/commands.md.
"""

from headwater.cli.main import main

__all__ = ["main"]
