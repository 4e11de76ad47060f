"""Flags and helpers of the access commands: a realm or one of its catalogs, the author, and confirmation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import rich_click as click

from headwater.embedded import CatalogHandle
from headwater.persistence.realms.realms import Realms
from headwater.persistence.rows import SYSTEM_REALM
from headwater.persistence.store import RealmKernel
from headwater.producer.access.grants import Grants, catalog_grants, realm_grants
from headwater.producer.access.writing import WriteMeta
from headwater.producer.catalogs.catalogs import Catalogs
from headwater.schemas.change import KeyPath
from headwater.settings import Settings
from headwater.wiring.stores import opened_store

T = TypeVar("T")

of_catalog = click.option("--catalog", metavar="NAME", help="Of this catalog; of the realm, if left out.")
at_path = click.option("--path", "path_text", metavar="a.b", default="", help="At and below this path of the catalog.")
properties = click.option("--property", "assignments", metavar="NAME=VALUE", multiple=True, help="A property; may come often.")
yes = click.option("--yes", is_flag=True, help="Do not ask.")


@contextmanager
def access_kernel(settings: Settings, realm: str) -> Iterator[RealmKernel]:
    """An ACTIVE realm, or the system's own."""
    with opened_store(settings) as store:
        yield store.system if realm == SYSTEM_REALM else Realms(store).require_active(realm)


def write_meta(author: str | None) -> WriteMeta:
    return WriteMeta(CatalogHandle.author_or_me(author))


def catalog_id(kernel: RealmKernel, catalog: str) -> int:
    return Catalogs(kernel).get(catalog).id


def grants_of(kernel: RealmKernel, catalog: str | None) -> Grants:
    return realm_grants(kernel) if catalog is None else catalog_grants(kernel, catalog_id(kernel, catalog))


def every(page_after: Callable[[T | None], list[T]]) -> list[T]:
    """All pages as one list; each is asked for behind the last of the one before."""
    found = page = page_after(None)
    while page:
        page = page_after(page[-1])
        found = [*found, *page]
    return found


def path_of(text: str) -> KeyPath:
    return tuple(text.split(".")) if text else ()


def properties_of(assignments: Sequence[str]) -> dict[str, str]:
    found = {}
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if not equals or not name:
            raise click.BadParameter(f"{assignment!r} is not NAME=VALUE.", param_hint="--property")
        found[name] = value
    return found


def confirmed(question: str, yes: bool) -> None:
    if not yes:
        click.confirm(question, abort=True, err=True)
