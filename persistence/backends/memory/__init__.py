"""The reference backend: rows in dictionaries of this process, for tests and trials.

Read memory_store, memory_backend.
"""

from __future__ import annotations

import threading
from urllib.parse import urlsplit

from headwater.persistence.backends.memory.memory_backend import MemoryBackend
from headwater.persistence.backends.memory.memory_store import MemoryStore

_SHARED: dict[str, MemoryStore] = {}


_SHARED_LOCK = threading.Lock()


def open_memory(url: str) -> MemoryBackend:
    """A fresh store, or the one of this process that bears the URL's name."""
    parts = urlsplit(url)
    name = parts.netloc + parts.path
    if not name:
        return MemoryBackend(MemoryStore())
    with _SHARED_LOCK:
        return MemoryBackend(_SHARED.setdefault(name, MemoryStore()))
