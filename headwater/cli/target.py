"""The flags that say where a command works: realm, catalog and branch; and the handles that they open."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import rich_click as click

from headwater.settings import Settings
from headwater.wiring.stores import opened_store

if TYPE_CHECKING:
    from headwater.embedded import CatalogHandle, RealmHandle

F = TypeVar("F", bound=Callable[..., Any])

in_realm = click.option("--realm", default="default", show_default=True, help="The realm.")
author = click.option("--author", metavar="NAME", help="Who does it; you, if left out.")
message = click.option("-m", "--message", metavar="TEXT", default="", help="Why.")
expected_head = click.option("--expected-head", metavar="COMMIT", help="Refuse unless the branch is at this commit.")


def in_catalog(function: F) -> F:
    with_catalog = click.option("--catalog", default="lake", show_default=True, help="The catalog.")
    return in_realm(with_catalog(function))


@contextmanager
def realm_of(settings: Settings, realm: str) -> Iterator[RealmHandle]:
    from headwater.embedded import Headwater

    with opened_store(settings) as store:
        engine = Headwater(store)
        try:
            yield engine.realm(realm)
        finally:
            engine.stop_watching()


@contextmanager
def catalog_of(settings: Settings, realm: str, catalog: str) -> Iterator[CatalogHandle]:
    with realm_of(settings, realm) as handle:
        yield handle.catalog(catalog)


def key_text(key: tuple[str, ...]) -> str:
    """A key for people; machines take it from JSON."""
    return ".".join(key)
