"""Checks the metadata of a view: by PyIceberg's model, and what that leaves out."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar
from uuid import UUID

import pydantic
from pyiceberg.exceptions import ValidationError
from pyiceberg.view.metadata import ViewMetadata

from headwater.schemas.errors import MalformedMetadata, MalformedViewVersion
from headwater.service.iceberg.metadata.shapes import Plain

T = TypeVar("T")


def checked_view(metadata: Plain, what: str = "view") -> Plain:
    """The same metadata. Every id in it names something."""
    well_formed(lambda: ViewMetadata.model_validate(metadata), what)
    well_formed(lambda: UUID(metadata["view-uuid"]), f"{what[:150]}: view-uuid")
    schemas = {schema.get("schema-id") for schema in metadata["schemas"]}
    versions = {version["version-id"]: version for version in metadata["versions"]}
    if metadata["current-version-id"] not in versions:
        raise MalformedMetadata("The current version is none of the view's.", field="view-version-id")
    if any(version["schema-id"] not in schemas for version in versions.values()):
        raise MalformedMetadata("A version's schema is none of the view's.", field="schema-id")
    for version in versions.values():
        _check_queries(version)
    return metadata


def _check_queries(version: Plain) -> None:
    """A version has at least one query, and one for each dialect."""
    dialects = [str(one.get("dialect")).lower() for one in version["representations"]]
    if not dialects:
        raise MalformedViewVersion("Invalid view version: it has no query")
    twice = next((name for name in dialects if dialects.count(name) > 1), None)
    if twice is not None:
        raise MalformedViewVersion(f"Invalid view version: Cannot add multiple queries for dialect {twice}")


def well_formed(make: Callable[[], T], what: str) -> T:
    """What PyIceberg makes of input. Whatever it raises becomes `MalformedMetadata`."""
    try:
        return make()
    except pydantic.ValidationError as error:
        raise MalformedMetadata(f"{what[:200]}: {_first(error)}", field="body") from None
    except (ValidationError, ValueError, TypeError, KeyError, AttributeError, IndexError, RecursionError) as error:
        raise MalformedMetadata(f"{what[:200]}: {str(error)[:500] or type(error).__name__}", field="body") from None


def _first(error: pydantic.ValidationError) -> str:
    fault = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(str(part) for part in fault["loc"])
    return f"{where}: {fault['msg']}."[:500]
