"""The interface of a kind of server: how to prepare, start, stop, probe and address it."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from headwater.dev.state import ServerRecord

Report = Callable[[str], None]
"""Receives one short line of progress."""


def silent(_: str) -> None:
    """The progress report of a caller that wants none."""


class ServerKind(Protocol):
    """Everything that differs between the servers; the rest is in server.py, once."""

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
        """Provides programs and an initialized data folder; does nothing the second time, and repairs what a crash left half
        done."""

    def command(self, record: ServerRecord, jar_cache: Path) -> list[str]: ...

    def is_ready(self, record: ServerRecord) -> bool:
        """Whether it answers in its own protocol: an open port is not enough."""

    def url(self, record: ServerRecord) -> str:
        """With password, if there is one."""
