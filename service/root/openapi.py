"""Generates the OpenAPI 3.1 document from the routes and their structs."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import msgspec

from headwater.schemas.change import Change
from headwater.schemas.http.feed_json import Problem, StreamEnd, StreamEvent
from headwater.service.auth.rights.rights import Right
from headwater.service.auth.tokens.token_openapi import SECURITY_SCHEMES, TOKENS_ROUTE, token_operation
from headwater.service.feed.feed_routes import CHANGES_ROUTE, FEED_ROUTES, STREAM_ROUTE, FeedRoute
from headwater.service.http.parameters import Parameter
from headwater.service.manage.route import REALMS, ManageRoute
from headwater.service.manage.routes import MANAGE_ROUTES

_REF = "#/components/schemas/{name}"
_PATH_PARAMETER = re.compile(r"\{(\w+)\}")
_EVERY_ROUTE = (400, 401, 403, 404, 429, 503)
_MUTATING = ("POST", "PUT", "PATCH", "DELETE")
_OVER_A_VERSION = ("PUT", "PATCH", "DELETE")
_TITLES = {
    200: "It is there already, the same.",
    304: "Nothing is new.",
    400: "What was asked cannot be meant.",
    404: "It is not there.",
    401: "There is no token that proves who asks.",
    403: "The caller has no right to that.",
    409: "What is there says no, or the key came with another request: code IDEMPOTENCY_KEY_REUSED or IDEMPOTENCY_KEY_BUSY.",
    410: "History is gone, or is another one: code CURSOR_EXPIRED or CURSOR_RESET.",
    412: "If-Match names a version that is not the newest any more.",
    408: "The body did not come in time.",
    413: "The body is too large.",
    429: "Too many requests; Retry-After says when to come again.",
    503: "Come again: code CURSOR_AHEAD, STORE_UNAVAILABLE, NOT_SERVING and the like.",
}
_PATH_TEXTS = {
    "realm": ("Name of a realm.", {"type": "string", "minLength": 1, "maxLength": 128}),
    "id": ("64 hex digits.", {"type": "string", "pattern": "^[0-9a-f]{64}$"}),
    "catalog": ("Name of a catalog.", {"type": "string", "minLength": 1, "maxLength": 256}),
    "namespace": ("Path of a namespace, levels separated by %1F.", {"type": "string", "minLength": 1, "maxLength": 1000}),
    "type": ("What it is.", {"type": "string", "enum": ["branch", "tag"]}),
    "reference": ("Name of a branch or tag; percent-encode a slash.", {"type": "string", "minLength": 1, "maxLength": 256}),
    "principal": ("Name of a principal.", {"type": "string", "minLength": 1, "maxLength": 128}),
    "role": ("Name of a role.", {"type": "string", "minLength": 1, "maxLength": 128}),
    "member": ("Who gets it.", {"type": "string", "minLength": 1, "maxLength": 128}),
    "right": ("A right.", {"type": "string", "enum": [str(right) for right in Right]}),
    "policy": ("Name of a policy.", {"type": "string", "minLength": 1, "maxLength": 128}),
    "name": ("Name of a subscription.", {"type": "string", "pattern": "^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$"}),
}
_PLAIN_PATHS = {
    "/livez": "Whether the process lives.",
    "/readyz": "Whether it can serve.",
    "/metrics": "Prometheus' text format.",
    "/openapi.json": "This description.",
    "/": "A page that shows the way.",
}


@cache
def openapi_bytes() -> bytes:
    return msgspec.json.encode(openapi())


def openapi() -> dict[str, Any]:
    from headwater import __version__

    routes = [*FEED_ROUTES, *(_described(route) for route in MANAGE_ROUTES)]
    named = [route.body for route in routes] + [route.answer for route in routes]
    types = list(dict.fromkeys([Problem, StreamEnd, Change, StreamEvent, *(one for one in named if one is not None)]))
    _, components = msgspec.json.schema_components(types, ref_template=_REF)
    paths: dict[str, Any] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    for path, summary in _PLAIN_PATHS.items():
        answers: dict[str, Any] = {"200": {"description": summary}}
        if path == "/readyz":
            answers["503"] = _problem(503)
        paths[path] = {"get": {"summary": summary, "operationId": _operation_id("get", path), "responses": answers}}
    token = token_operation(_path_parameter("realm"))
    token["responses"] |= {str(status): _problem(status) for status in (404, 408, 413, 503)}
    paths[TOKENS_ROUTE] = {"post": token}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Headwater feed and management",
            "version": __version__,
            "description": "The change feed of a lakehouse catalog: complete, in order, once, resumable from any commit.",
        },
        "paths": paths,
        "components": {"schemas": components, "securitySchemes": SECURITY_SCHEMES},
    }


def _described(route: ManageRoute) -> FeedRoute:
    """A management route, told like those of the feed."""
    also = [409] if route.method in _MUTATING else []
    also += [412] if route.method in _OVER_A_VERSION else []
    also += [413] if route.method in _MUTATING else []
    # What the log does not reach any more is told where branches are read.
    also += [410] if "{catalog}" in route.path else []
    return FeedRoute(
        route.method,
        route.path,
        route.summary,
        route.right,
        parameters=route.parameters,
        body=route.body,
        answer=route.answer,
        status=route.status,
        also=tuple(also),
    )


def _operation(route: FeedRoute) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "summary": route.summary,
        "operationId": _operation_id(route.method.lower(), route.path),
        "x-headwater-right": str(route.right),
        "parameters": [
            *(_path_parameter(name) for name in _PATH_PARAMETER.findall(route.path)),
            *(_query_parameter(parameter) for parameter in route.parameters),
            *_header_parameters(route),
        ],
        "responses": _answers(route),
    }
    if route.body is not None:
        schema = {"$ref": _REF.format(name=route.body.__name__)}
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
    return operation


def _answers(route: FeedRoute) -> dict[str, Any]:
    answers: dict[str, Any] = {str(route.status): _answer(route)}
    for status in (*_EVERY_ROUTE, *route.also, *((408,) if 413 in route.also else ())):
        if status == 304:
            answers["304"] = {"description": _TITLES[304]}
        elif status < 300:
            answers[str(status)] = _answer(route, _TITLES[status])
        else:
            answers[str(status)] = _problem(status)
    return answers


def _answer(route: FeedRoute, title: str | None = None) -> dict[str, Any]:
    answer: dict[str, Any] = {
        "description": title or route.summary,
        "headers": {"X-Request-ID": {"schema": {"type": "string"}}},
    }
    if route.answer is not None:
        if route.answer_media == "text/event-stream":
            schema: dict[str, Any] = {"type": "string", "description": "Events; the data of each is a FeedPage or a StreamEnd."}
        else:
            schema = {"$ref": _REF.format(name=route.answer.__name__)}
        answer["content"] = {route.answer_media: {"schema": schema}}
    return answer


def _problem(status: int) -> dict[str, Any]:
    schema = {"$ref": _REF.format(name="Problem")}
    return {"description": _TITLES[status], "content": {"application/problem+json": {"schema": schema}}}


def _query_parameter(parameter: Parameter) -> dict[str, Any]:
    one: dict[str, Any] = {"type": parameter.type}
    if parameter.minimum is not None:
        one["minimum"] = parameter.minimum
    if parameter.maximum is not None:
        one["maximum"] = parameter.maximum
    if parameter.choices:
        one["enum"] = list(parameter.choices)
    elif parameter.type == "string":
        one |= {"minLength": 1, "maxLength": parameter.length_max}
    if parameter.default is not None:
        one["default"] = parameter.default
    schema = {"type": "array", "items": one, "maxItems": parameter.items_max} if parameter.many else one
    return {
        "name": parameter.name,
        "in": "query",
        "required": parameter.required,
        "description": parameter.description,
        "schema": schema,
        **({"style": "form", "explode": True} if parameter.many else {}),
    }


def _path_parameter(name: str) -> dict[str, Any]:
    description, schema = _PATH_TEXTS[name]
    return {"name": name, "in": "path", "required": True, "description": description, "schema": schema}


def _header_parameters(route: FeedRoute) -> list[dict[str, Any]]:
    found = [
        _header("X-Request-ID", "Comes back with the answer and stands in the log."),
        _header("X-Correlation-ID", "The same, and in the headers of what is committed."),
    ]
    if route.path == CHANGES_ROUTE:
        found.append(_header("If-None-Match", "The ETag of the last page: 304 when nothing is new."))
    if route.path == STREAM_ROUTE:
        found.append(_header("Last-Event-ID", "Go on behind this event; wins over `after`."))
    if route.method in _MUTATING:
        found.append(_header("Idempotency-Key", "The same key does it once, however often it is sent."))
    if 412 in route.also:
        found.append(_header("If-Match", "An ETag from an earlier response: succeeds only if that version is the newest."))
    return found


def _header(name: str, description: str) -> dict[str, Any]:
    return {"name": name, "in": "header", "required": False, "description": description, "schema": {"type": "string"}}


def _operation_id(method: str, path: str) -> str:
    left_out = ("", "feed", "v1", "name", "id") if path.startswith(REALMS) else ("", "feed", "v1", "realm", "name", "id")
    words = [word for word in re.split(r"[^A-Za-z0-9]+", path) if word not in left_out]
    return "_".join([method, *words]) or method
