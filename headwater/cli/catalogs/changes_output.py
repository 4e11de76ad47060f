"""Prints Changes as they come, each as a line for people or a line of JSON."""

from __future__ import annotations

import sys
from collections.abc import Iterable

import msgspec
from rich.console import Console
from rich.text import Text

from headwater.cli.plain_text import plain_line
from headwater.cli.target import key_text
from headwater.schemas.change import Change, Kind, Op, Operation

OPERATIONS_SHOWN = 4
_STYLES = {Op.PUT: "green", Op.DELETE: "red", Op.RENAME: "yellow"}
_KIND_STYLES = {Kind.COMMIT: "cyan", Kind.MERGE: "magenta", Kind.TRANSPLANT: "magenta"}


def print_changes(changes: Iterable[Change], *, json_output: bool, with_pointer: bool = False) -> None:
    """One line each, flushed, so that a pipe sees it when it happens; with the pointer where there can be several."""
    console = Console(highlight=False, soft_wrap=True)
    for change in changes:
        if json_output:
            sys.stdout.write(msgspec.json.encode(change).decode() + "\n")
            sys.stdout.flush()
        else:
            console.print(change_line(change, with_pointer=with_pointer))


def change_line(change: Change, *, with_pointer: bool = False) -> Text:
    line = Text.assemble(
        plain_line(f"{change.pointer} ") if with_pointer else "",
        (f"{change.seq:>6} ", "bold"),
        (f"{change.commit_id[:16]} ", "dim"),
        (f"{change.time[:23]}Z ", "dim"),
        (f"{change.kind:<10} ", _KIND_STYLES.get(change.kind, "blue")),
        plain_line(f"{change.author}: {change.message.splitlines()[0] if change.message else ''} "),
    )
    for op in change.operations[:OPERATIONS_SHOWN]:
        line.append(plain_line(f" {_sign(op)}{key_text(op.key)}"), style=_STYLES[op.op])
    if len(change.operations) > OPERATIONS_SHOWN:
        line.append(f" and {len(change.operations) - OPERATIONS_SHOWN} more", style="dim")
    return line


def _sign(op: Operation) -> str:
    if op.op is Op.RENAME and op.from_key is not None:
        return f"{key_text(op.from_key)} → "
    return "-" if op.op is Op.DELETE else "+" if op.before is None else "~"
