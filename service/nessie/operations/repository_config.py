"""Keeps the configuration that Nessie's tools write for a repository, among the properties of its catalog.

⚠ It is kept and returned, not obeyed: what history is kept is a matter of the settings of `headwater maintain`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from headwater.producer.access.writing import WriteMeta
from headwater.producer.catalogs import catalog_updates
from headwater.producer.catalogs.catalogs import Catalogs
from headwater.schemas.errors import InvalidInput
from headwater.service.nessie.operations.catalog_view import CatalogView

TYPES = ("GARBAGE_COLLECTOR",)
PROPERTY = "nessie.repository-config."

Config = dict[str, Any]


def read_configs(view: CatalogView, types: Iterable[str]) -> list[Config]:
    properties = Catalogs(view.kernel).get(view.catalog.name).properties
    found = (_kept(properties, type) for type in dict.fromkeys(types))
    return [one for one in found if one is not None]


def write_config(view: CatalogView, config: Config, meta: WriteMeta) -> Config | None:
    """The configuration of that type before."""
    type = config.get("type")
    if type not in TYPES:
        raise InvalidInput(
            f"Repository config type bundle for '{str(type)[:80]}' is not available on the Nessie server side.",
            field="config.type",
            remedy=f"Use {', '.join(TYPES)}.",
        )
    read = Catalogs(view.kernel).read(view.catalog.name)
    before = _kept(read.catalog.properties, type)
    catalog_updates.update_catalog(
        view.kernel,
        view.catalog.name,
        properties={**read.catalog.properties, PROPERTY + type: msgspec.json.encode(config).decode()},
        version=read.version,
        meta=meta,
    )
    return before


def _kept(properties: dict[str, str], type: str) -> Config | None:
    """Another program may have written the property: what is not an object counts as not there."""
    try:
        return msgspec.json.decode(properties.get(PROPERTY + type, "null"), type=dict[str, Any] | None)
    except msgspec.DecodeError:
        return None
