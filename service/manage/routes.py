"""All management routes; requests are matched here, and the OpenAPI and the isolation test are generated from it."""

from __future__ import annotations

from typing import NamedTuple

from headwater.service.manage import (
    audit,
    catalogs,
    namespaces,
    policies,
    principals,
    realms,
    references,
    roles,
    usage,
)
from headwater.service.manage.route import PREFIX, ManageRoute

MANAGE_ROUTES: tuple[ManageRoute, ...] = (
    *realms.ROUTES,
    *catalogs.ROUTES,
    *namespaces.ROUTES,
    *references.ROUTES,
    *principals.ROUTES,
    *roles.ROUTES,
    *policies.ROUTES,
    *audit.ROUTES,
    *usage.ROUTES,
)


class RouteMatch(NamedTuple):
    by_method: dict[str, ManageRoute]
    names: dict[str, str]


def find_route(segments: list[str]) -> RouteMatch | None:
    """What is at a path, given without its prefix; None if nothing is. A word of the API wins over a name."""
    for pattern, by_method in _BY_LENGTH.get(len(segments), ()):
        pairs = list(zip(pattern, segments, strict=True))
        if all(word == segment or (word.startswith("{") and segment) for word, segment in pairs):
            return RouteMatch(by_method, {word[1:-1]: segment for word, segment in pairs if word.startswith("{")})
    return None


def _by_length() -> dict[int, list[tuple[list[str], dict[str, ManageRoute]]]]:
    by_path: dict[str, dict[str, ManageRoute]] = {}
    for route in MANAGE_ROUTES:
        by_path.setdefault(route.path, {})[route.method] = route
    found: dict[int, list[tuple[list[str], dict[str, ManageRoute]]]] = {}
    for path, by_method in by_path.items():
        pattern = path.removeprefix(f"{PREFIX}/").split("/")
        found.setdefault(len(pattern), []).append((pattern, by_method))
    for patterns in found.values():
        patterns.sort(key=lambda one: [word.startswith("{") for word in one[0]])
    return found


_BY_LENGTH = _by_length()
