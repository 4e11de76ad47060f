"""Pins what an export reads, while commits and maintenance continue.

⚠ The pin is set under the lease of maintenance runs, and then every pointer row is rewritten unchanged: an expiry that looked
for pins before has lost its lease, and a floor that it had prepared loses its CAS. From then on no floor rises; and whatever is
reachable between the floors and the heads of the cut stays so. The pin of a process that died expires by itself.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from headwater.persistence.clock import MICROS
from headwater.persistence.coordination.pointer_writes import touch_pointers
from headwater.persistence.store import Store
from headwater.schemas.errors import HeadwaterError
from headwater.streaming.expire.readers import RegisteredReaders
from headwater.streaming.runs.runs import Runs

PIN_SECONDS = 3_600
RENEW_SECONDS = 300


@contextmanager
def export_pin(store: Store, realm: str, *, supersede: str | None = None) -> Iterator[Callable[[], None]]:
    """Yields a function to be called repeatedly: it renews the pin when that is due."""
    readers = RegisteredReaders(store.backend, realm, store.clock)
    name = f"export-{secrets.token_hex(4)}"
    with Runs(store.backend, store.clock).run("export", supersede=supersede):
        readers.save(name, {}, pin_seconds=PIN_SECONDS)  # no position at all: every floor stays where it is
        touch_pointers(store.backend, realm, store.clock)
    renewed_at = store.clock.now_micros()

    def renew() -> None:
        nonlocal renewed_at
        now = store.clock.now_micros()
        if now - renewed_at > RENEW_SECONDS * MICROS:
            readers.save(name, {}, pin_seconds=PIN_SECONDS)
            renewed_at = now

    try:
        yield renew
    finally:
        with suppress(HeadwaterError):  # then it expires by itself
            readers.forget(name)
