"""What the store acknowledged: the log of every pointer as it was written, kept outside of the store that is tested."""

from __future__ import annotations

import copy
from typing import Any

import msgspec

from headwater.persistence.log.log_entry import LogRecord


class ModelEntry(msgspec.Struct, frozen=True):
    seq: int
    entry_id: str
    request_id: str
    logged: LogRecord
    restores: int
    """How often the store had been restored when it landed."""


class Model:
    def __init__(self) -> None:
        self.logs: dict[tuple[str, str], list[ModelEntry]] = {}
        """By realm instance and pointer, from seq 1 on."""
        self.restores = 0
        self.ever: dict[str, str] = {}
        """Every entry id that ever landed, also in histories that were lost → pointer."""

    def log(self, realm: str, pointer: str) -> list[ModelEntry]:
        return self.logs.setdefault((realm, pointer), [])

    def backup(self) -> Any:
        return {key: list(log) for key, log in self.logs.items()}

    def restore(self, backup: Any) -> None:
        self.logs = copy.copy({key: list(log) for key, log in backup.items()})
        self.restores += 1

    def is_in_log(self, realm: str, pointer: str, seq: int, entry_id: str) -> bool:
        log = self.logs.get((realm, pointer), [])
        return 0 < seq <= len(log) and log[seq - 1].entry_id == entry_id
