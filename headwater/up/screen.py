"""Shows supervised processes: a live table on a terminal, a line for each change elsewhere, or JSON lines for machines."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import msgspec
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from headwater.up.supervisor import ProcessStatus, Watch

QUIET_STATES = ("ready", "stopping", "stopped")
"""States in which no reason is shown."""
STYLES = {"ready": "green", "failing": "bold red", "restarting": "bold red", "stopped": "dim"}
REFRESHES_PER_SECOND = 4

Statuses = Callable[[], Sequence[ProcessStatus]]


class ReadyLine(msgspec.Struct, frozen=True, kw_only=True, tag="ready", tag_field="event"):
    seconds: float
    addresses: dict[str, str]


class StateLine(msgspec.Struct, frozen=True, kw_only=True, tag="state", tag_field="event"):
    process: ProcessStatus


class EndLine(msgspec.Struct, frozen=True, kw_only=True, tag="stopped", tag_field="event"):
    pass


class Lines:
    """One line at a time, even from several threads."""

    def __init__(self, *, json_output: bool, quiet: bool = False) -> None:
        self._json_output = json_output
        self._quiet = quiet
        self._lock = threading.Lock()
        self.said = ""
        """What a screen shows for itself, where there is one."""

    def state(self, status: ProcessStatus) -> None:
        reason = f"  {status.reason}" if status.reason and status.state not in QUIET_STATES else ""
        self._write(StateLine(process=status), f"{status.name:<10} {status.state:<10} {status.address}{reason}", self._quiet)

    def ready(self, seconds: float, statuses: Sequence[ProcessStatus]) -> None:
        line = ReadyLine(seconds=round(seconds, 3), addresses={one.name: one.address for one in statuses})
        self.said = f"all of it is ready after {seconds:.1f} s"
        self._write(line, self.said, self._quiet)

    def end(self) -> None:
        self._write(EndLine(), "all of it has stopped", False)

    def _write(self, value: msgspec.Struct, text: str, quiet: bool) -> None:
        if quiet:
            return
        with self._lock:
            sys.stdout.write((msgspec.json.encode(value).decode() if self._json_output else text) + "\n")
            sys.stdout.flush()


def process_table(statuses: Sequence[ProcessStatus], title: str, note: str = "") -> Table:
    """Reasons are printed below it, over the whole width: in a column they and the addresses would be cut to a word."""
    reasons = [f"{one.name}: {one.reason}" for one in statuses if one.reason and one.state not in QUIET_STATES]
    table = Table(
        title=title,
        title_justify="left",
        header_style="bold",
        caption=Text("\n".join([*reasons, *([note] if note else [])])),
        caption_justify="left",
        caption_style="",
    )
    for name in ("process", "state", "address", "pid", "restarts"):
        table.add_column(name, no_wrap=True)
    for one in statuses:
        state = Text(one.state, style=STYLES.get(one.state, "yellow"))
        table.add_row(one.name, state, one.address, str(one.pid or ""), str(one.restarts or ""))
    return table


@contextmanager
def screen(statuses: Statuses, *, json_output: bool, title: str, note: str = "") -> Iterator[Lines]:
    """`note` is printed below everything, after the last messages."""
    console = Console()
    if json_output or not console.is_terminal:
        yield Lines(json_output=json_output)
        return
    lines = Lines(json_output=False, quiet=True)

    def drawn() -> Table:
        return process_table(statuses(), title, "\n".join(filter(None, [lines.said, note])))

    with Live(get_renderable=drawn, console=console, refresh_per_second=REFRESHES_PER_SECOND):
        yield lines


__all__ = ["Lines", "Watch", "process_table", "screen"]
