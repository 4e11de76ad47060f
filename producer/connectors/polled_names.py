"""The names that a polled source lists, as far as the scope of a job reaches: paths, each with all below it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from headwater.persistence.index import encode_key
from headwater.producer.connectors.bounded_listing import ListingBounds
from headwater.producer.connectors.bridge_plan import Held, namespace_of
from headwater.producer.connectors.source_spi import Source
from headwater.schemas.change import KeyPath
from headwater.schemas.errors import ContentNotFound, InvalidInput, NotFound

SCOPE_PATHS_MAX = 100


class Scope(msgspec.Struct, frozen=True):
    paths: tuple[KeyPath, ...] = ()
    """As the source names them; none of them means everything."""

    @property
    def is_everything(self) -> bool:
        return not self.paths

    def covers(self, key: KeyPath) -> bool:
        return self.is_everything or any(key[: len(path)] == path for path in self.paths)

    def is_above(self, key: KeyPath) -> bool:
        return any(path[: len(key)] == key for path in self.paths)


EVERYTHING = Scope()


def checked_scope(paths: Iterable[Sequence[str]], destination: KeyPath) -> tuple[KeyPath, ...]:
    """Paths below a connector's destination, in order, without those that lie below another one."""
    found = sorted({tuple(path) for path in paths})
    if len(found) > SCOPE_PATHS_MAX:
        raise InvalidInput(f"it has {len(found)} paths.", field="scope", remedy=f"Name at most {SCOPE_PATHS_MAX} of them.")
    for path in found:
        if path:
            encode_key(path)  # refuses what is not a key
        if path[: len(destination)] != destination or len(path) == len(destination):
            where = f"the connector's destination {path_text(destination)}".rstrip()
            raise InvalidInput(
                f"{path_text(path)!r} is not below {where}.",
                field="scope",
                remedy="Name namespaces and tables below it as this catalog does; leave the scope out for everything.",
            )
    kept: list[KeyPath] = []
    for path in found:
        if not kept or path[: len(kept[-1])] != kept[-1]:
            kept.append(path)
    return tuple(kept)


def scope_refused(source: str) -> InvalidInput:
    """⚠ Commits of a log touch what they touch: to take some of them later would put older states over newer ones."""
    return InvalidInput(
        f"a {source} source is followed commit by commit, in its order, and takes no scope.",
        field="scope",
        remedy="Leave it out: only what is new in the log is read.",
    )


class PolledNames(msgspec.Struct, frozen=True, kw_only=True):
    namespaces: dict[KeyPath, Held]
    """In the scope and above it, parents first."""
    tables: Sequence[KeyPath]
    """Tables and views in the scope, in order."""


def read_names(source: Source, scope: Scope, is_table: Callable[[KeyPath], bool], bounds: ListingBounds) -> PolledNames:
    """Tables that are known as such are looked up in their own namespaces alone."""
    if not scope.is_everything and all(is_table(path) for path in scope.paths):
        namespaces = dict[KeyPath, Held]()
        parents = {path[:-1] for path in scope.paths}
    else:
        listed = {one.key: namespace_of(one.value["properties"]) for one in bounds.contents(source.namespaces())}
        namespaces = {key: one for key, one in listed.items() if scope.covers(key) or scope.is_above(key)}
        parents = set(namespaces)
    tables = sorted({key for parent in parents for key in _tables(source, parent, bounds) if scope.covers(key)})
    return PolledNames(namespaces=namespaces, tables=tables)


def names_beyond(source: Source, scope: Scope, bounds: ListingBounds) -> Iterator[KeyPath]:
    """Tables and views that the scope leaves out."""
    for namespace in [one.key for one in bounds.contents(source.namespaces())]:
        yield from (key for key in _tables(source, namespace, bounds) if not scope.covers(key))


def require_known(scope: Scope, names: PolledNames, is_held: Callable[[KeyPath], bool]) -> None:
    """⚠ Before anything is committed: a name with a slip in it is no empty namespace."""
    for path in scope.paths:
        if path not in names.namespaces and path not in names.tables and not is_held(path):
            raise ContentNotFound(
                f"{path_text(path)} is neither at the source nor here.", field="scope", remedy="List what the source has."
            )


def path_text(path: KeyPath) -> str:
    return ".".join(path)[:200]


def _tables(source: Source, namespace: KeyPath, bounds: ListingBounds) -> Sequence[KeyPath]:
    try:
        return [*bounds.keys(source.tables(namespace))]
    except NotFound:  # dropped since it was listed; its tables are confirmed one by one before they are dropped here
        return []
