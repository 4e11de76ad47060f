"""Applies requirements and updates to view metadata as plain JSON values, without files."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from pyiceberg.schema import Schema

from headwater.persistence.clock import now_millis
from headwater.schemas.errors import InvalidInput, MalformedMetadata, RequirementFailed
from headwater.service.iceberg.metadata.table_requests import UPDATES_MAX
from headwater.service.iceberg.metadata.view_shape import checked_view, well_formed

VIEW_UPDATES = (
    "assign-uuid",
    "upgrade-format-version",
    "add-schema",
    "set-location",
    "set-properties",
    "remove-properties",
    "add-view-version",
    "set-current-view-version",
)
VIEW_REQUIREMENTS = ("assert-view-uuid",)
FORMAT_VERSION = 1
FIRST_SCHEMA_ID = 0
"""Ids of schemas are the catalog's, from 0 on, as the reference server numbers them; those of a request only refer."""
LAST_ADDED = -1
KEPT_VERSIONS = "version.history.num-entries"
KEPT_VERSIONS_DEFAULT = 10

Plain = dict[str, Any]


def _check_properties(properties: Mapping[str, str]) -> None:
    value = properties.get(KEPT_VERSIONS, "1")
    if not (value.isascii() and value.isdecimal() and len(value) < 10):
        raise MalformedMetadata(f"{KEPT_VERSIONS} is not a whole number: {value[:80]!r}.", field="properties")


def _kept_versions(properties: Mapping[str, str]) -> int:
    """A view that another program wrote may say nonsense: then it keeps the default number."""
    try:
        return max(1, int(properties.get(KEPT_VERSIONS, KEPT_VERSIONS_DEFAULT)))
    except ValueError:
        return KEPT_VERSIONS_DEFAULT


def new_view(view_uuid: str, location: str, schema: Plain, version: Plain, properties: Mapping[str, str]) -> Plain:
    _check_properties(properties)
    first = {**version, "version-id": 1, "schema-id": FIRST_SCHEMA_ID}
    first.setdefault("timestamp-ms", now_millis())
    first.setdefault("summary", {})
    return checked_view(
        {
            "view-uuid": view_uuid,
            "format-version": FORMAT_VERSION,
            "location": location,
            "schemas": [{**schema, "schema-id": FIRST_SCHEMA_ID}],
            "current-version-id": 1,
            "versions": [first],
            "version-log": [{"timestamp-ms": first["timestamp-ms"], "version-id": 1}],
            "properties": dict(properties),
        }
    )


def check_names(items: Sequence[Plain], field: str, known: Sequence[str]) -> None:
    """Checks the names of updates or requirements before anything is built from them."""
    if len(items) > UPDATES_MAX:
        raise InvalidInput(f"{len(items)} are too many.", field=field, remedy=f"Send at most {UPDATES_MAX}.")
    for item in items:
        if item.get(field) not in known:
            name = str(item.get(field))[:80]
            raise MalformedMetadata(f"Unknown {field}: {name!r}.", field=field, remedy=f"Use {', '.join(known)}.")


def check_view_requirements(requirements: Sequence[Plain], base: Plain) -> None:
    for requirement in requirements:
        if str(requirement.get("uuid")) != base["view-uuid"]:
            raise RequirementFailed("Requirement failed: view UUID does not match.", field="assert-view-uuid")


def updated_view(base: Plain, updates: Sequence[Plain]) -> Plain:
    view = _Building(base)
    for update in updates:
        try:
            view.apply(update)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise MalformedMetadata(f"{update.get('action')}: {error}.", field="updates") from None
    return checked_view(view.finished())


class _Building:
    def __init__(self, base: Plain) -> None:
        self._view = copy.deepcopy(base)
        self._last_schema: int | None = None
        self._last_version: int | None = None
        self._ids: dict[int, int] = {}

    def apply(self, update: Plain) -> None:
        view = self._view
        match update["action"]:
            case "assign-uuid":
                if str(update["uuid"]) != view["view-uuid"]:
                    raise ValueError("the view has a uuid already, which stays")
            case "upgrade-format-version":
                if update["format-version"] != FORMAT_VERSION:
                    raise ValueError(f"the format version of views is {FORMAT_VERSION}")
            case "add-schema":
                self._add_schema(update["schema"])
            case "set-location":
                view["location"] = update["location"].rstrip("/")
            case "set-properties":
                _check_properties(update["updates"])
                view.setdefault("properties", {}).update(update["updates"])
            case "remove-properties":
                for name in update["removals"]:
                    view.setdefault("properties", {}).pop(name, None)
            case "add-view-version":
                self._add_version(update["view-version"])
            case "set-current-view-version":
                self._set_current(update["view-version-id"])

    def finished(self) -> Plain:
        """With as many old versions as the view wants to keep."""
        view = self._view
        kept = _kept_versions(view.get("properties", {}))
        current = view["current-version-id"]
        newest = sorted((one["version-id"] for one in view["versions"]), key=lambda id: (id == current, id))[-kept:]
        view["versions"] = [one for one in view["versions"] if one["version-id"] in newest]
        view["version-log"] = [one for one in view["version-log"] if one["version-id"] in newest]
        return view

    def _add_schema(self, given: Plain) -> None:
        new: Any = well_formed(lambda: Schema.model_validate(given), "schema")
        for there in self._view["schemas"]:
            old: Any = well_formed(lambda there=there: Schema.model_validate(there), "schema")  # type: ignore[misc]
            if old.as_struct() == new.as_struct():
                self._last_schema = there["schema-id"]
                return
        self._last_schema = max(there["schema-id"] for there in self._view["schemas"]) + 1
        self._view["schemas"].append({**given, "schema-id": self._last_schema})

    def _add_version(self, given: Plain) -> None:
        version = dict(given)
        if version["schema-id"] == LAST_ADDED:
            if self._last_schema is None:
                raise ValueError("-1 means the last schema added, but none was added")
            version["schema-id"] = self._last_schema
        version.setdefault("timestamp-ms", now_millis())
        for there in self._view["versions"]:
            if _meaning(there) == _meaning(version):
                self._ids[given["version-id"]] = self._last_version = there["version-id"]
                return
        taken = {there["version-id"] for there in self._view["versions"]}
        chosen = max(version["version-id"], max(taken) + 1)
        self._ids[given["version-id"]] = self._last_version = chosen
        self._view["versions"].append({**version, "version-id": chosen})

    def _set_current(self, id: int) -> None:
        meant = self._last_version if id == LAST_ADDED else self._ids.get(id, id)
        if meant is None:
            raise ValueError("-1 means the last version added, but none was added")
        if meant != self._view["current-version-id"]:
            self._view["current-version-id"] = meant
            self._view["version-log"].append({"timestamp-ms": now_millis(), "version-id": meant})


def _meaning(version: Plain) -> Plain:
    return {name: value for name, value in version.items() if name not in ("version-id", "timestamp-ms")}
