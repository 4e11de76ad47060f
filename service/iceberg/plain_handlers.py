"""Handlers of configuration, tokens and namespaces."""

from __future__ import annotations

from typing import Any

import msgspec

from headwater.schemas.change import KeyPath
from headwater.schemas.errors import InvalidInput
from headwater.service.auth.tokens.token_endpoint import dev_token
from headwater.service.dev_realm import DEV_CATALOG
from headwater.service.http.responses import NO_STORE, Response, json_response
from headwater.service.iceberg.call import LEVELS, IcebergCall, namespace_of
from headwater.service.iceberg.operations import namespaces
from headwater.service.iceberg.operations.lakes import prefix_of
from headwater.service.iceberg.operations.namespaces import Names

NO_CONTENT = Response(204, [NO_STORE], b"")


class NamespaceCreation(msgspec.Struct, frozen=True):
    namespace: list[str]
    properties: dict[str, str] = {}


class PropertiesUpdate(msgspec.Struct, frozen=True):
    removals: list[str] = []
    updates: dict[str, str] = {}


def config(call: IcebergCall, endpoints: list[str]) -> Response:
    warehouse = call.query.get("warehouse") or DEV_CATALOG
    call.branch_of(prefix_of(warehouse)).state()  # 404 for what is not there
    return json_response(
        {
            "defaults": {},
            "overrides": {"prefix": prefix_of(warehouse)},
            "endpoints": endpoints,
            "idempotency-key-lifetime": f"PT{int(call.lakes.keys_kept_seconds)}S",
        }
    )


def token(call: IcebergCall) -> Response:
    """The door answers it, before anyone is asked for a token; this is what it answers under `--dev`."""
    return dev_token(call.body)


def list_namespaces(call: IcebergCall) -> Response:
    parent = call.query.get("parent")
    found = namespaces.list_namespaces(call.branch, namespace_of(parent) if parent else (), *call.page())
    return json_response({"namespaces": found.keys, "next-page-token": found.next_token})


def create_namespace(call: IcebergCall) -> Response:
    body = call.read(NamespaceCreation)
    key = _levels(body.namespace)
    properties = namespaces.create_namespace(call.branch, call.caller, key, body.properties)
    return json_response({"namespace": key, "properties": properties})


def load_namespace(call: IcebergCall) -> Response:
    key = call.namespace
    return json_response({"namespace": key, "properties": namespaces.namespace_properties(call.branch, key)})


def namespace_exists(call: IcebergCall) -> Response:
    namespaces.namespace_properties(call.branch, call.namespace)
    return NO_CONTENT


def drop_namespace(call: IcebergCall) -> Response:
    namespaces.drop_namespace(call.branch, call.caller, call.namespace)
    return NO_CONTENT


def update_namespace(call: IcebergCall) -> Response:
    body = call.read(PropertiesUpdate)
    return json_response(namespaces.update_properties(call.branch, call.caller, call.namespace, body.updates, body.removals))


def identifiers(found: Names) -> Response:
    named: list[dict[str, Any]] = [{"namespace": key[:-1], "name": key[-1]} for key in found.keys]
    return json_response({"identifiers": named, "next-page-token": found.next_token})


def _levels(levels: list[str]) -> KeyPath:
    if not levels or not all(levels):
        raise InvalidInput("A namespace has at least one level, and none is empty.", field="namespace")
    if any(LEVELS in level for level in levels):
        raise InvalidInput("A level holds the character that parts levels: no path could name it.", field="namespace")
    return tuple(levels)
