"""The page at `/docs`: every route with its parameters and the right that it needs. It has no scripts."""

from __future__ import annotations

from functools import cache
from html import escape

from headwater.service.gate.route import Api, Route
from headwater.service.gate.route_table import RouteTable
from headwater.service.http.parameters import Parameter
from headwater.service.root.front_page import PAGE_STYLE

_PAGE = """<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>Headwater: every route</title>
<style>
{style}
</style></head>
<body>
<h1>Every route</h1>
<p><a href="/openapi.json">/openapi.json</a> describes them for programs, with the shape of every body and response.</p>
<p>{contents}</p>
{apis}
</body></html>
"""


@cache
def docs_page(table: RouteTable) -> bytes:
    contents = " · ".join(f'<a href="#{escape(api.name)}">{escape(api.name)}</a>' for api in table.apis)
    return _PAGE.format(style=PAGE_STYLE, contents=contents, apis="\n".join(map(_api, table.apis))).encode()


def _api(api: Api) -> str:
    routes = "\n".join(map(_route, api.routes))
    return f'<h2 id="{escape(api.name)}">{escape(api.name)}</h2>\n<p>{escape(api.summary)}</p>\n{routes}'


def _route(route: Route) -> str:
    parameters = "".join(map(_parameter, route.parameters))
    return (
        f"<details><summary><code>{route.method} {escape(route.path)}</code> {escape(route.summary)}</summary>"
        f"<p>{escape(_needed(route))}</p>{f'<table>{parameters}</table>' if parameters else ''}</details>"
    )


def _needed(route: Route) -> str:
    needs = route.needs
    if needs is None or needs.is_public:
        return "No token is needed."
    return f"Needs {'any right' if needs.right is None else needs.right} over: {needs.where}."


def _parameter(one: Parameter) -> str:
    said = f"{one.description}{' Required.' if one.required else ''}"
    return f"<tr><td><code>{escape(one.name)}</code></td><td>{one.type}</td><td>{escape(said)}</td></tr>"
