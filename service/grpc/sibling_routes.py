"""Finds the HTTP routes that methods share their rights and handlers with."""

from __future__ import annotations

from headwater.service.feed.feed_routes import FEED_API
from headwater.service.gate.route import Route
from headwater.service.iceberg.routes import ICEBERG
from headwater.service.manage.routes import MANAGE


def sibling(method: str, path: str) -> Route:
    for api in (FEED_API, MANAGE, ICEBERG):
        for route in api.routes:
            if route.method == method and route.path == path:
                return route
    raise LookupError(f"there is no route {method} {path}")
