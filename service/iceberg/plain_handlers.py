"""Handlers of configuration and namespaces."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from headwater.schemas.change import KeyPath
from headwater.schemas.errors import InvalidInput
from headwater.service.dev_realm import DEV_CATALOG
from headwater.service.gate.request import LEVELS
from headwater.service.http.responses import NO_STORE, Response, json_response
from headwater.service.iceberg.call import IcebergCall, namespace_of
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


async def config(call: IcebergCall, endpoints: list[str]) -> Response:
    """On the loop where the catalog is known; a branch that the warehouse names is looked up: 404 if it is not there."""
    prefix = prefix_of(call.text("warehouse") or DEV_CATALOG)
    branch = None if "@" in prefix else call.lakes.known_branch(call.feed, prefix)
    if branch is None:
        branch = await asyncio.to_thread(call.branch_of, prefix)
        await asyncio.to_thread(branch.state)
    overrides = {"prefix": prefix}
    if branch.engine_gc_refused:
        overrides["rest-catalog-purge"] = "true"  # Spark then leaves DROP … PURGE to the server
    return json_response(
        {
            "defaults": {},
            "overrides": overrides,
            "endpoints": endpoints,
            "idempotency-key-lifetime": f"PT{int(call.lakes.keys_kept_seconds)}S",
        }
    )


def list_namespaces(call: IcebergCall) -> Response:
    parent = call.text("parent")
    found = namespaces.list_namespaces(call.branch, namespace_of(parent) if parent else (), *call.page())
    return json_response({"namespaces": found.keys, "next-page-token": found.next_token})


def create_namespace(call: IcebergCall) -> Response:
    body = call.read(NamespaceCreation)
    key = _levels(body.namespace)
    properties = namespaces.create_namespace(call.branch, call.author, key, body.properties)
    return json_response({"namespace": key, "properties": properties})


def load_namespace(call: IcebergCall) -> Response:
    key = call.namespace
    return json_response({"namespace": key, "properties": namespaces.namespace_properties(call.branch, key)})


def namespace_exists(call: IcebergCall) -> Response:
    namespaces.namespace_properties(call.branch, call.namespace)
    return NO_CONTENT


def drop_namespace(call: IcebergCall) -> Response:
    namespaces.drop_namespace(call.branch, call.author, call.namespace)
    return NO_CONTENT


def update_namespace(call: IcebergCall) -> Response:
    body = call.read(PropertiesUpdate)
    return json_response(namespaces.update_properties(call.branch, call.author, call.namespace, body.updates, body.removals))


def identifiers(found: Names) -> Response:
    named: list[dict[str, Any]] = [{"namespace": key[:-1], "name": key[-1]} for key in found.keys]
    return json_response({"identifiers": named, "next-page-token": found.next_token})


def _levels(levels: list[str]) -> KeyPath:
    if not levels or not all(levels):
        raise InvalidInput("A namespace has at least one level, and none is empty.", field="namespace")
    if any(LEVELS in level for level in levels):
        raise InvalidInput("A level holds the character that parts levels: no path could name it.", field="namespace")
    return tuple(levels)
