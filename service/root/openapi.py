"""Generates the OpenAPI 3.1 document of all APIs from the table of routes and their structs."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import Any

import msgspec

from headwater.schemas.change import Change
from headwater.schemas.http.feed_json import Problem, StreamEnd, StreamEvent
from headwater.service.auth.rights.rights import Right
from headwater.service.gate.route import READING, Api, ErrorShape, Needs, Route
from headwater.service.gate.route_table import RouteTable
from headwater.service.http.parameters import Parameter

_REF = "#/components/schemas/{name}"
_PATH_PARAMETER = re.compile(r"\{([\w-]+)\}")
_EVERY_ROUTE = (400, 401, 403, 404, 429, 503)
_OF_THE_PUBLIC = (400, 404, 429, 503)
_TITLES = {
    200: "It is there already, the same.",
    204: "It is done; the response has no body.",
    304: "Nothing is new.",
    400: "The request is not valid.",
    404: "It is not there.",
    401: "There is no token that proves who asks.",
    403: "The caller has no right to that.",
    406: "The specification has it, this server does not.",
    409: "A conflict with the state, or a reused key: code IDEMPOTENCY_KEY_REUSED or IDEMPOTENCY_KEY_BUSY.",
    410: "History is gone, or is another one: code CURSOR_EXPIRED or CURSOR_RESET.",
    412: "If-Match names a version that is not the newest any more.",
    408: "The body did not come in time.",
    413: "The body is too large.",
    422: "The request contradicts itself, or its key came with another request.",
    429: "Too many requests; Retry-After says when to come again.",
    503: "Try again: code CURSOR_AHEAD, STORE_UNAVAILABLE, NOT_SERVING and the like.",
}
_PATH_TEXTS: dict[str, tuple[str, dict[str, Any]]] = {
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
    "prefix": ("`lake`, or `lake@branch` for another branch.", {"type": "string", "minLength": 1, "maxLength": 1000}),
    "ref": ("A branch, a tag or a commit: `main`, `main@<hash>`, `main~2`.", {"type": "string", "minLength": 1}),
    "key": ("A content key, its elements separated by dots.", {"type": "string", "minLength": 1, "maxLength": 4000}),
}
_NAME: tuple[str, dict[str, Any]] = ("A name.", {"type": "string", "minLength": 1})
_SECURITY_SCHEMES = {
    "bearer": {
        "type": "http",
        "scheme": "bearer",
        "bearerFormat": "JWT",
        "description": "Asked for by every route under /feed, /manage, /iceberg and /api, unless the server runs with --dev.",
    }
}
_TOKEN_ANSWER = {
    "type": "object",
    "required": ["access_token", "token_type", "expires_in"],
    "properties": {
        "access_token": {"type": "string"},
        "token_type": {"type": "string", "const": "bearer"},
        "expires_in": {"type": "integer"},
        "issued_token_type": {"type": "string"},
    },
}
_TOKEN_ERROR = {
    "type": "object",
    "required": ["error", "error_description"],
    "properties": {"error": {"type": "string"}, "error_description": {"type": "string"}},
}
_TOKEN_REFUSALS = {400: "The form cannot be meant.", 401: "The client's id or secret is wrong.", 429: "Too many wrong tries."}


@cache
def openapi_bytes(table: RouteTable) -> bytes:
    return msgspec.json.encode(openapi(table))


def openapi(table: RouteTable) -> dict[str, Any]:
    from headwater import __version__

    components, names = _components(route for _, route in table.routes)
    paths: dict[str, Any] = {}
    for api, route in table.routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(api, route, names)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Headwater",
            "version": __version__,
            "description": "The change feed of a lakehouse catalog: complete, in order, once, resumable from any commit.",
        },
        "servers": [{"url": "/", "description": "The server that this came from."}],
        "tags": [{"name": api.name, "description": api.summary} for api in table.apis],
        "paths": paths,
        "components": {"schemas": components, "securitySchemes": _SECURITY_SCHEMES},
    }


def _components(routes: Iterable[Route]) -> tuple[dict[str, Any], dict[type, dict[str, Any]]]:
    """All schemas by name, and what each type is referred to as. Bodies that carry the name of their specification may have it
    from several."""
    named = [one for route in routes for one in (route.body, route.answer) if one is not None]
    types = list(dict.fromkeys([Problem, StreamEnd, Change, StreamEvent, *named]))
    schemas, components = msgspec.json.schema_components(types, ref_template=_REF)
    return components, dict(zip(types, schemas, strict=True))


def _operation(api: Api, route: Route, names: dict[type, dict[str, Any]]) -> dict[str, Any]:
    needs = route.needs
    operation: dict[str, Any] = {
        "tags": [api.name],
        "summary": route.summary,
        "operationId": _operation_id(api, route),
        "parameters": [
            *(_path_parameter(name) for name in _PATH_PARAMETER.findall(route.path)),
            *(_query_parameter(parameter) for parameter in route.parameters),
            *_header_parameters(route),
        ],
        "responses": _answers(api, route, names),
    }
    if needs is not None and not needs.is_public:
        operation["security"] = [{"bearer": []}]
        operation["x-headwater-right"] = _right(needs)
        operation["x-headwater-over"] = needs.where
    if route.body is not None:
        content = {"application/json": {"schema": names[route.body]}}
        operation["requestBody"] = {"required": not route.body_is_optional, "content": content}
    if route.form is not None:
        content = {"application/x-www-form-urlencoded": {"schema": route.form}}
        operation["requestBody"] = {"required": True, "content": content}
    return operation


def _right(needs: Needs) -> str:
    return "any" if needs.right is None else str(needs.right)


def _answers(api: Api, route: Route, names: dict[type, dict[str, Any]]) -> dict[str, Any]:
    answers: dict[str, Any] = {}
    if route.handler is not None:
        answers[str(route.status)] = _answer(route, route.summary, names)
    is_public = route.needs is not None and route.needs.is_public
    also = (*route.also, *((408,) if 413 in route.also else ()))
    for status in (*(_OF_THE_PUBLIC if is_public else _EVERY_ROUTE), *also):
        if status >= 400:
            answers[str(status)] = _problem(api.errors, status)
        elif str(status) not in answers:
            answers[str(status)] = _answer(route, _TITLES[status], names) if status == 200 else {"description": _TITLES[status]}
    if route.form is not None:
        for status, said in _TOKEN_REFUSALS.items():
            answers[str(status)] = {"description": said, "content": {"application/json": {"schema": _TOKEN_ERROR}}}
    return answers


def _answer(route: Route, title: str, names: dict[type, dict[str, Any]]) -> dict[str, Any]:
    answer: dict[str, Any] = {"description": title, "headers": {"X-Request-ID": {"schema": {"type": "string"}}}}
    if route.answer is not None:
        schema = names[route.answer]
        if route.answer_media == "text/event-stream":
            schema = {"type": "string", "description": "Events; the data of each is a FeedPage or a StreamEnd."}
        answer["content"] = {route.answer_media: {"schema": schema}}
    elif route.form is not None:
        answer["content"] = {"application/json": {"schema": _TOKEN_ANSWER}}
    return answer


def _problem(errors: ErrorShape | None, status: int) -> dict[str, Any]:
    if errors is None:
        return {"description": _TITLES[status]}
    return {"description": _TITLES[status], "content": {errors.media: {"schema": errors.schema}}}


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
    description, schema = _PATH_TEXTS.get(name, _NAME)
    return {"name": name, "in": "path", "required": True, "description": description, "schema": schema}


def _header_parameters(route: Route) -> list[dict[str, Any]]:
    found = [
        _header("X-Request-ID", "Comes back with the answer and stands in the log."),
        _header("X-Correlation-ID", "The same, and in the headers of what is committed."),
    ]
    if 304 in route.also:
        found.append(_header("If-None-Match", "The ETag of an earlier response: 304 when nothing is new."))
    if route.answer_media == "text/event-stream":
        found.append(_header("Last-Event-ID", "Continue after this event; wins over `after`."))
    if route.method not in READING and route.form is None:
        found.append(_header("Idempotency-Key", "The same key does it once, however often it is sent."))
    found += [_header(name, description) for name, description in route.headers]
    if 412 in route.also:
        found.append(_header("If-Match", "An ETag from an earlier response: succeeds only if that version is the newest."))
    return found


def _header(name: str, description: str) -> dict[str, Any]:
    return {"name": name, "in": "header", "required": False, "description": description, "schema": {"type": "string"}}


def _operation_id(api: Api, route: Route) -> str:
    """`get_changes`; those of Iceberg and Nessie begin with the API."""
    words = [word for word in re.split(r"[^A-Za-z0-9]+", route.path) if word not in ("", "v1", "v2", "feed", "name", "id")]
    if not route.path.startswith("/manage/v1/realms"):
        words = [word for word in words if word != "realm"]
    return "_".join([route.method.lower(), *words])
