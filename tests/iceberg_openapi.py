"""The table of routes enters; an OpenAPI description of the Iceberg door leaves, with the answers that are allowed.

Bodies are described by the structs that the door reads them into. A file with the description that the Iceberg project
publishes can be named instead, in HEADWATER_ICEBERG_OPENAPI.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import msgspec
import yaml

from headwater.service.iceberg.content_handlers import Registration, Renaming
from headwater.service.iceberg.event_handlers import QueryEvents
from headwater.service.iceberg.metadata.shapes import OrderShape, SchemaShape, SpecShape
from headwater.service.iceberg.metadata.table_requests import TableRequirement, TableUpdate
from headwater.service.iceberg.plain_handlers import NamespaceCreation, PropertiesUpdate
from headwater.service.iceberg.routes import ROUTES, IcebergRoute

PUBLISHED = "HEADWATER_ICEBERG_OPENAPI"
EVERYWHERE = {"400", "401", "403", "404", "406", "408", "409", "410", "413", "422", "429", "503"}
"""Refusals, each in the specification's error shape; not one of them says that the server is broken."""
NO_BODY = {"HEAD", "DELETE"}
QUERIES = {
    "GET /v1/config": ["warehouse"],
    "GET /v1/{prefix}/namespaces": ["parent", "pageToken", "pageSize"],
    "GET /v1/{prefix}/namespaces/{namespace}/tables": ["pageToken", "pageSize"],
    "GET /v1/{prefix}/namespaces/{namespace}/views": ["pageToken", "pageSize"],
    "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}": ["snapshots"],
    "DELETE /v1/{prefix}/namespaces/{namespace}/tables/{table}": ["purgeRequested"],
}


class Creation(msgspec.Struct, rename="kebab"):
    name: str
    schema: SchemaShape
    location: str | None = None
    partition_spec: SpecShape | None = None
    write_order: OrderShape | None = None
    stage_create: bool = False
    properties: dict[str, str] = {}


class Commit(msgspec.Struct):
    requirements: list[TableRequirement]
    updates: list[TableUpdate]


class Change(Commit):
    identifier: dict[str, Any]


class Changes(msgspec.Struct, rename="kebab"):
    table_changes: list[Change]


BODIES: dict[str, type] = {
    "POST /v1/{prefix}/namespaces": NamespaceCreation,
    "POST /v1/{prefix}/namespaces/{namespace}/properties": PropertiesUpdate,
    "POST /v1/{prefix}/namespaces/{namespace}/tables": Creation,
    "POST /v1/{prefix}/namespaces/{namespace}/register": Registration,
    "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}": Commit,
    "POST /v1/{prefix}/tables/rename": Renaming,
    "POST /v1/{prefix}/transactions/commit": Changes,
    "POST /v1/{prefix}/views/rename": Renaming,
    "POST /v1/{prefix}/namespaces/{namespace}/register-view": Registration,
    "POST /v1/{prefix}/events": QueryEvents,
}


def description() -> dict[str, Any]:
    published = os.environ.get(PUBLISHED)
    if published:
        found: dict[str, Any] = yaml.safe_load(Path(published).read_text())
        return {**found, "servers": [], "security": []}
    schemas, components = msgspec.json.schema_components(list(BODIES.values()), ref_template="#/components/schemas/{name}")
    bodies = dict(zip(BODIES, schemas, strict=True))
    paths: dict[str, Any] = {}
    for route in ROUTES:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, bodies)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Iceberg REST", "version": "1"},
        "paths": paths,
        "components": {"schemas": components},
    }


def _operation(route: IcebergRoute, bodies: dict[str, Any]) -> dict[str, Any]:
    name = f"{route.method} {route.path}"
    parameters: list[dict[str, Any]] = [
        {"name": part, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for part in re.findall(r"\{([^}]+)\}", route.path)
    ]
    parameters += [{"name": query, "in": "query", "schema": {"type": "string"}} for query in QUERIES.get(name, ())]
    made: dict[str, Any] = {
        "operationId": name,
        "parameters": parameters,
        "responses": {status: {"description": status} for status in sorted({"200", "204", "304", *EVERYWHERE})},
    }
    if route.method == "POST":
        made["requestBody"] = {"content": {"application/json": {"schema": bodies.get(name, {"type": "object"})}}}
    return made
