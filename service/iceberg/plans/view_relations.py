"""What a view reads: the base relations that its author declared, else those that its SQL names. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from headwater.schemas.change import KeyPath
from headwater.schemas.errors import InvalidInput
from headwater.service.iceberg.metadata.shapes import Plain
from headwater.service.iceberg.plans.view_sql import NamedInSql, relations_in, unreadable

BASE_RELATIONS = "headwater.base-relations"
"""In the summary of a view's version: JSON of a list of `BaseRelation`."""
_PREFERRED = ("spark", "trino")
_METADATA_TABLES = frozenset({"history", "snapshots", "files", "entries", "manifests", "partitions", "refs", "all_data_files"})
"""The usual ones of Iceberg, after the name of a table."""


class BaseRelation(msgspec.Struct, frozen=True, omit_defaults=True):
    path: KeyPath
    """With the namespace."""
    catalog: str = ""
    """The view's own, if empty."""


class ReadByView(msgspec.Struct, frozen=True):
    """One relation that a view reads."""

    names: tuple[BaseRelation, ...]
    """The places that it may stand for, in order; a catalog is always named."""
    snapshot_id: int | None = None


def reads_of(view: Plain, catalog: str, is_catalog: Callable[[str], bool]) -> list[ReadByView]:
    """What the current version of a view in a catalog reads; `Unsupported` if that cannot be determined."""
    version = next(one for one in view["versions"] if one["version-id"] == view["current-version-id"])
    declared = (version.get("summary") or {}).get(BASE_RELATIONS)
    if declared is not None:
        return [ReadByView((_complete(one, catalog),)) for one in read_declared(declared)]
    wanted = str(version.get("default-catalog") or "")
    home = wanted if wanted and is_catalog(wanted) else catalog
    default = tuple(str(level) for level in version.get("default-namespace") or ())
    found = (_standing_for(one, home, wanted, default, is_catalog) for one in _named(version["representations"]))
    return list(dict.fromkeys(found))


def sql_size(view: Plain) -> int:
    """The characters of SQL that may have to be parsed to tell what the view reads."""
    version = next(one for one in view["versions"] if one["version-id"] == view["current-version-id"])
    if (version.get("summary") or {}).get(BASE_RELATIONS) is not None:
        return 0
    return sum(len(str(one.get("sql", ""))) for one in version["representations"])


def read_declared(text: str) -> list[BaseRelation]:
    try:
        found = msgspec.json.decode(text, type=list[BaseRelation])
    except (msgspec.DecodeError, UnicodeEncodeError):
        raise unreadable(f"{BASE_RELATIONS} is no list of relations") from None
    if any(len(one.path) < 2 or not all(one.path) for one in found):
        raise unreadable(f"{BASE_RELATIONS} names no table or view")
    return found


def declared(relations: Sequence[BaseRelation]) -> str:
    """As it is kept in the summary."""
    if any(len(one.path) < 2 or not all(one.path) for one in relations):
        raise InvalidInput("it is no table or view.", field="base_relations", remedy="Name the namespace and the table.")
    return msgspec.json.encode(relations).decode()


def _named(representations: Sequence[dict[str, Any]]) -> tuple[NamedInSql, ...]:
    """By the text of the first dialect that can be read; all of them say the same."""
    texts = {str(one.get("dialect", "")).lower(): str(one.get("sql", "")) for one in representations}
    ordered = sorted(texts, key=lambda dialect: _PREFERRED.index(dialect) if dialect in _PREFERRED else len(_PREFERRED))
    error: Exception = unreadable("it has no SQL")
    for dialect in ordered:
        try:
            return relations_in(dialect, texts[dialect])
        except type(error) as found:
            error = found
    raise error


def _standing_for(one: NamedInSql, home: str, alias: str, default: KeyPath, is_catalog: Callable[[str], bool]) -> ReadByView:
    """⚠ An engine may call the view's catalog by a name of its own, which it notes as the default catalog."""
    parts = one.parts
    names: list[BaseRelation] = []
    for path in (parts, parts[:-1]) if parts[-1].lower() in _METADATA_TABLES else (parts,):
        if len(path) == 1:
            names.append(BaseRelation((*default, *path), home))
            continue
        if len(path) > 2 and path[0] == alias:
            names.append(BaseRelation(path[1:], home))
        elif len(path) > 2 and is_catalog(path[0]):
            names.append(BaseRelation(path[1:], path[0]))
        if len(path) > 1:
            names.append(BaseRelation(path, home))
    return ReadByView(tuple(dict.fromkeys(names)), one.snapshot_id)


def _complete(one: BaseRelation, catalog: str) -> BaseRelation:
    return one if one.catalog else BaseRelation(one.path, catalog)
