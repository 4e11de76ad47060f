"""Where a name of a query is looked for: temporary relations, then the default namespace, then the search path. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from headwater.schemas.change import KeyPath
from headwater.schemas.errors import InvalidInput

SEARCH_PATH_MAX = 100
TEMPORARY_MAX = 1_000


class Place(msgspec.Struct, frozen=True):
    catalog: str
    path: KeyPath = ()


class Session(msgspec.Struct, frozen=True, kw_only=True):
    default_namespace: Place | None = None
    search_path: tuple[Place, ...] = ()
    temporary: dict[str, dict[str, Any]] = {}
    """Schemas by name."""

    @property
    def places(self) -> tuple[Place, ...]:
        first = () if self.default_namespace is None else (self.default_namespace,)
        return tuple(dict.fromkeys((*first, *self.search_path)))


def session_of(default: Place | None, search_path: Sequence[Place], temporary: Sequence[tuple[str, dict[str, Any]]]) -> Session:
    """`InvalidInput` for too much of it, and for two temporary relations of one name."""
    if len(search_path) > SEARCH_PATH_MAX or len(temporary) > TEMPORARY_MAX:
        raise InvalidInput(
            f"a search path of {len(search_path)} and {len(temporary)} temporary relations.",
            field="session",
            remedy=f"Send at most {SEARCH_PATH_MAX} and {TEMPORARY_MAX}.",
        )
    names = [name.strip() for name, _ in temporary]
    if len(set(names)) != len(names) or not all(names):
        raise InvalidInput("a name is empty, or comes twice.", field="session.temporary_relations", remedy="Send each once.")
    schemas = {name: schema for name, (_, schema) in zip(names, temporary, strict=True)}
    return Session(default_namespace=default, search_path=tuple(dict.fromkeys(search_path)), temporary=schemas)


def candidates(session: Session, catalog: str, path: KeyPath) -> list[Place]:
    """The names that a name may stand for, in order. One with a catalog is complete."""
    if catalog:
        return [Place(catalog, path)]
    return [Place(place.catalog, (*place.path, *path)) for place in session.places]
