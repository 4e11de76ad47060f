"""The interface of a kind of server: how to prepare, start, stop, probe and address it."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from headwater.dev.state import ServerRecord

Report = Callable[[str], None]
"""Takes one short line about what is going on."""


def silent(_: str) -> None:
    """The report of a caller who does not look."""


class ServerKind(Protocol):
    """All that differs between the servers; everything else is in server.py, once."""

    @property
    def name(self) -> str: ...

    @property
    def port_names(self) -> tuple[str, ...]:
        """The first is `main`, the one that clients use."""

    @property
    def stop_signal(self) -> signal.Signals: ...

    @property
    def ready_when(self) -> str:
        """What `is_ready` asks for, in words."""

    def choose_data_dir(self, folder: Path) -> Path: ...

    def prepare(self, record: ServerRecord, jar_cache: Path, report: Report) -> None:
        """Programs and an initialized data folder; does nothing the second time, mends what a crash left half done."""

    def command(self, record: ServerRecord, jar_cache: Path) -> list[str]: ...

    def is_ready(self, record: ServerRecord) -> bool:
        """Whether it answers in its own protocol: an open port is not enough."""

    def url(self, record: ServerRecord) -> str:
        """With password, if there is one."""
