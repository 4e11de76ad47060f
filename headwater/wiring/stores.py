"""An open store from settings, with a warning on stderr if its server could lose acknowledged commits."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

from rich.console import Console
from rich.text import Text

from headwater.settings import Settings

if TYPE_CHECKING:
    from headwater.persistence.store import Store, StoreOptions


def store_options(settings: Settings) -> StoreOptions:
    from headwater.persistence.commit.retries import RetryPolicy
    from headwater.persistence.store import StoreOptions

    return StoreOptions(
        cache_bytes=settings.cache_bytes,
        node_lease_seconds=settings.node_lease_seconds,
        durability=settings.durability,
        poll_seconds=settings.poll_seconds,
        request_ids_kept_seconds=settings.request_id_days * 86_400,
        retries=RetryPolicy(
            attempts_max=settings.commit_attempts_max,
            seconds_max=settings.commit_retry_seconds,
            delay_seconds_first=settings.commit_first_wait_seconds,
            delay_seconds_max=settings.commit_longest_wait_seconds,
            decide_seconds_max=settings.commit_decide_seconds,
        ),
    )


@contextmanager
def opened_store(settings: Settings, *, create: bool = False) -> Iterator[Store]:
    """Closes the store at the end. Its schema must exist, unless it is to be created."""
    from headwater.persistence.store import WeakDurability, open_store

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", WeakDurability)
        store = open_store(settings.store, store_options(settings), create=create)
    with store:
        _reach_files(store, settings)
        for warning in caught:
            if issubclass(warning.category, WeakDurability):
                warn(str(warning.message))
        yield store


def _reach_files(store: Store, settings: Settings) -> None:
    """Lets commits check whether they need files that are about to be deleted, and new catalogs claim their storage roots."""
    from headwater.service.storage.storage_options import server_storage
    from headwater.streaming.files.reach_files import condemned_files_of, new_roots_of

    options = server_storage(settings.storage_options).server
    store.reach_files = condemned_files_of(options)
    store.on_new_root = new_roots_of(store, options)


def warn(message: str) -> None:
    """One line on stderr."""
    line = " ".join(message.split())
    Console(stderr=True, soft_wrap=True, highlight=False).print(Text.assemble(("warning", "bold yellow"), f": {line}"))


def shown_url(url: str) -> str:
    """Without the password."""
    parts = urlsplit(url)
    user, at, host = parts.netloc.rpartition("@")
    if not at or ":" not in user:
        return url
    return urlunsplit(parts._replace(netloc=f"{user.partition(':')[0]}:***@{host}"))
