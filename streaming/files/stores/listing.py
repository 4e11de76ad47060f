"""Lists a folder in parallel: it is split into folders that together hold all of its files.

In this process threads share the folders; on Spark workers do (spark/spark_listing.py).
⚠ A listing that ends without an error is complete, as with one listing of the whole: it ends only when every folder has been
listed to its end, and the first error ends it.
"""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import NamedTuple, Protocol

from headwater.schemas.errors import Unsupported
from headwater.streaming.files.kinds import FoundFile

SHALLOW_MAX = 10_000
"""Folders whose own files are listed apart."""
GROWTH_MAX = 16
"""How many times more folders than are wanted a split may make: a folder with many small ones in it stays whole, because each
of them costs a request."""
SPLIT_THREADS = 8
PAGES_PER_THREAD = 2
"""Pages that wait to be taken."""
_STOP_SECONDS = 0.1


class Listable(Protocol):
    """What splitting and listing need of a storage."""

    def list(self, prefix: str) -> Iterator[list[FoundFile]]: ...

    def folders(self, prefix: str) -> Sequence[str]: ...

    def files(self, prefix: str) -> Sequence[FoundFile]: ...


class Share(NamedTuple):
    prefix: str
    is_deep: bool
    """Everything below it, or only the files directly in it."""


def pages_of(store: Listable, share: Share) -> Iterator[list[FoundFile]]:
    if share.is_deep:
        yield from store.list(share.prefix)
    else:
        yield list(store.files(share.prefix))


def split(store: Listable, root: str, wanted: int, threads: int = SPLIT_THREADS) -> list[Share]:
    """Shares that together hold all files below a folder, each once: as many as wanted, if it has that many folders."""
    whole, shallow, level = list[str](), list[str](), [root]
    while level and len(whole) + len(level) < wanted and len(shallow) < SHALLOW_MAX:
        level, parents = [], level
        with ThreadPoolExecutor(threads, thread_name_prefix="split") as pool:
            found = list(pool.map(partial(_folders_in, store), parents))
        for number, (prefix, inner) in enumerate(zip(parents, found, strict=True)):
            others = len(whole) + len(level) + len(parents) - number - 1
            if not inner or others + len(inner) > wanted * GROWTH_MAX:
                whole.append(prefix)
            else:
                shallow.append(prefix)
                level += [f"{prefix}{name}/" for name in inner]
    return [Share(prefix, True) for prefix in whole + level] + [Share(prefix, False) for prefix in shallow]


def _folders_in(store: Listable, prefix: str) -> Sequence[str]:
    """None for a folder that should stay whole."""
    inner = store.folders(prefix) if _is_divisible(store, prefix) else ()
    if "" in inner:
        raise Unsupported(
            f"{prefix[:200]!r} has a key with an empty segment, which this storage client cannot name.",
            field="location",
            remedy="Delete it with the vendor's own tools.",
        )
    return inner


def _is_divisible(store: Listable, prefix: str) -> bool:
    """Whether it has more than a page, and not of its own files alone: to name the folders in a folder, a storage lists all
    files in it."""
    pages = store.list(prefix)
    has_folders = any("/" in file.location[len(prefix) :] for file in next(pages, ()))
    return has_folders and next(pages, None) is not None


def list_in_parallel(store: Listable, root: str, *, shares: int, threads: int) -> Iterator[list[FoundFile]]:
    """All files below a folder, page by page, in no particular order. ⚠ Raises if a page cannot be read."""
    if threads <= 1 or shares <= 1:
        yield from store.list(root)
        return
    found = split(store, root, shares, threads)
    if len(found) == 1:
        yield from pages_of(store, found[0])
        return
    listing = _Listing(store, found, min(threads, len(found)))
    try:
        yield from listing.pages()
    finally:
        listing.stop()


class _Listing:
    def __init__(self, store: Listable, shares: Sequence[Share], threads: int) -> None:
        self._store = store
        self._waiting = deque(shares)
        self._unfinished = len(shares)
        self._pages: queue.Queue[list[FoundFile] | BaseException | None] = queue.Queue(threads * PAGES_PER_THREAD)
        """None for a share that was listed to its end."""
        self._stopped = threading.Event()
        self._threads = [threading.Thread(target=self._work, name=f"list-{one}", daemon=True) for one in range(threads)]
        for thread in self._threads:
            thread.start()

    def pages(self) -> Iterator[list[FoundFile]]:
        while self._unfinished:
            page = self._pages.get()
            if page is None:
                self._unfinished -= 1
            elif isinstance(page, BaseException):
                raise page
            else:
                yield page

    def stop(self) -> None:
        """Waits for requests that are under way."""
        self._stopped.set()
        for thread in self._threads:
            thread.join()

    def _work(self) -> None:
        with suppress(IndexError):
            while not self._stopped.is_set():
                self._list(self._waiting.popleft())

    def _list(self, share: Share) -> None:
        try:
            for page in pages_of(self._store, share):
                if not self._put(page):
                    return
        except BaseException as error:  # whatever it is, the listing is not complete
            self._put(error)
            self._stopped.set()
        else:
            self._put(None)

    def _put(self, page: list[FoundFile] | BaseException | None) -> bool:
        """False if nobody takes it any more."""
        while not self._stopped.is_set():
            with suppress(queue.Full):
                self._pages.put(page, timeout=_STOP_SECONDS)
                return True
        return False
