"""Maps catalog ids and reference names to pointer names, and back. No other module knows how pointers are named."""

from __future__ import annotations

import functools
import re
from enum import StrEnum
from typing import NamedTuple

from headwater.schemas.errors import InvalidName

CATALOGS = "catalogs"
CONNECTORS = "connectors"
NAME_LENGTH_MAX = 256

_REFERENCE_NAME = re.compile(r"[A-Za-z](?:(?:(?!\.\.)[A-Za-z0-9./_-])*[A-Za-z0-9_-])?")
_HEX_ID = re.compile(r"[0-9a-fA-F]{8,64}")
_CATALOG_NAME = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_-])?")
_ACCESS_POINTER = re.compile(r"cat/(\d+)/(?:roles|grants)")
_STATISTICS_POINTER = re.compile(r"cat/(\d+)/stats")
_REFERENCE_POINTER = re.compile(r"cat/(\d+)/(heads|tags)/(.+)")


class ReferenceType(StrEnum):
    BRANCH = "BRANCH"
    TAG = "TAG"


_FOLDERS = {ReferenceType.BRANCH: "heads", ReferenceType.TAG: "tags"}
_TYPES = {folder: type for type, folder in _FOLDERS.items()}


class ReferencePointer(NamedTuple):
    catalog_id: int
    type: ReferenceType
    name: str


def reference_pointer(catalog_id: int, type: ReferenceType, name: str) -> str:
    return f"cat/{catalog_id}/{_FOLDERS[type]}/{check_reference_name(name)}"


def branch_pointer(catalog_id: int, name: str) -> str:
    return reference_pointer(catalog_id, ReferenceType.BRANCH, name)


def references_prefix(catalog_id: int, type: ReferenceType) -> str:
    """All pointers of the catalog's branches, or of its tags, begin with this."""
    return f"cat/{catalog_id}/{_FOLDERS[type]}/"


def catalog_prefix(catalog_id: int) -> str:
    return f"cat/{catalog_id}/"


def catalog_roles_pointer(catalog_id: int) -> str:
    return f"cat/{catalog_id}/roles"


def catalog_grants_pointer(catalog_id: int) -> str:
    return f"cat/{catalog_id}/grants"


def parse_access_pointer(pointer: str) -> int | None:
    """The catalog's id; None for a pointer that holds no roles or grants of a catalog."""
    match = _ACCESS_POINTER.fullmatch(pointer)
    return None if match is None else int(match.group(1))


def statistics_pointer(catalog_id: int) -> str:
    return f"cat/{catalog_id}/stats"


def parse_statistics_pointer(pointer: str) -> int | None:
    """The catalog's id; None for a pointer that holds no statistics."""
    match = _STATISTICS_POINTER.fullmatch(pointer)
    return None if match is None else int(match.group(1))


@functools.lru_cache(maxsize=10_000)
def parse_reference_pointer(pointer: str) -> ReferencePointer | None:
    """None for a pointer that is not a branch or tag."""
    match = _REFERENCE_POINTER.fullmatch(pointer)
    if match is None:
        return None
    return ReferencePointer(int(match.group(1)), _TYPES[match.group(2)], match.group(3))


def check_reference_name(name: str, field: str = "reference") -> str:
    """Letters, digits, `.`, `/`, `_` and `-`; begins with a letter, has no `..`, ends in no `.` or `/`, is not a commit id."""
    if not isinstance(name, str) or len(name) > NAME_LENGTH_MAX or not _REFERENCE_NAME.fullmatch(name):
        raise InvalidName(
            f"{str(name)[:80]!r} is not a name for a branch or tag.",
            field=field,
            remedy=f"Begin with a letter, continue with letters, digits and . / _ -, without '..', at most {NAME_LENGTH_MAX}.",
        )
    if _HEX_ID.fullmatch(name):
        raise InvalidName(
            f"{name!r} could be a commit id.", field=field, remedy="Choose a name that is not 8 to 64 hex digits."
        )
    if name.upper() in ("HEAD", "DETACHED"):
        raise InvalidName(f"{name!r} is reserved.", field=field, remedy="Choose another name.")
    return name


def check_catalog_name(name: str, field: str = "catalog") -> str:
    if not isinstance(name, str) or len(name) > NAME_LENGTH_MAX or not _CATALOG_NAME.fullmatch(name) or ".." in name:
        raise InvalidName(
            f"{str(name)[:80]!r} is not a name for a catalog.",
            field=field,
            remedy=f"Use letters, digits and _ . -, beginning with a letter, digit or _, at most {NAME_LENGTH_MAX}.",
        )
    return name
