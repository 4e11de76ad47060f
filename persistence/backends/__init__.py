"""One folder for each database. `open_backend` finds the one that a store URL names.

Read memory/ first: it is the reference of the SPI. Then sql/, which sqlite/ and postgresql/ share; cassandra/ stands alone.
All of them pass one suite, tests/contract.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import metadata

from headwater.persistence.backend import Backend
from headwater.schemas.errors import DuplicateRegistration, InvalidStoreUrl

ENTRY_POINT_GROUP = "headwater.backends"
"""An entry point of this group is named after a URL scheme and takes the URL to an open `Backend`."""

OpenBackend = Callable[[str], Backend]


def open_backend(url: str) -> Backend:
    """Connect to the store that the URL names; its schema is neither created nor checked here."""
    scheme, separator, _ = url.partition("://")
    known = known_backends()
    if scheme not in known or not separator:
        # The rest of the URL is left out: it may hold a password.
        raise InvalidStoreUrl(
            f"no backend is installed for {scheme}://." if separator else "the store URL has no scheme.",
            field="store",
            remedy=f"Use one of: {', '.join(f'{name}://…' for name in sorted(known))}.",
        )
    open_it: OpenBackend = known[scheme].load()
    return open_it(url)


def known_backends() -> dict[str, metadata.EntryPoint]:
    """Every installed backend by its scheme; two that claim one scheme are refused."""
    known: dict[str, metadata.EntryPoint] = {}
    for entry_point in metadata.entry_points(group=ENTRY_POINT_GROUP):
        if entry_point.name in known and known[entry_point.name].value != entry_point.value:
            raise DuplicateRegistration(
                f"two backends claim {entry_point.name}://: {known[entry_point.name].value} and {entry_point.value}.",
                field="backend",
                remedy="Uninstall one of them.",
            )
        known[entry_point.name] = entry_point
    return known
