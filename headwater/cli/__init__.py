"""Arguments enter; tables for people or JSON for machines leave, and exit code 2 with one line for what cannot be done."""

from headwater.cli.main import main

__all__ = ["main"]
