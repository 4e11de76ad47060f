"""The routes of the specification, their handlers and rights; requests are matched here, and the docs list it.

A reference is one segment, or several that end with one that holds an `@`: `my/branch@/history`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from headwater.service.auth.rights.rights import Right
from headwater.service.http.responses import Response
from headwater.service.nessie import commit_handler, merge_handlers, read_handlers, reference_handlers
from headwater.service.nessie.call import NessieCall

Handler = Callable[[NessieCall], Response]
AsyncHandler = Callable[[NessieCall], Awaitable[Response]]

_REF = "/trees/{ref}"


class NessieRoute(NamedTuple):
    method: str
    path: str
    right: Right
    handler: Handler | None = None
    """On a thread, for it asks the store; None for the one that runs on the loop."""
    on_loop: AsyncHandler | None = None
    by_key: bool = False
    """The right is needed over the keys that the request names, and the handler asks for it; else over the catalog."""

    ask_first: Callable[[NessieCall], Awaitable[None]] | None = None
    """Asks for the same rights alone."""

    @property
    def mutates(self) -> bool:
        return self.right not in READING


READING = frozenset({Right.REFERENCE_READ, Right.CATALOG_READ, Right.TABLE_READ})

ROUTES = (
    NessieRoute("GET", "/config", Right.REFERENCE_READ, read_handlers.config),
    NessieRoute("GET", "/config/repository", Right.REFERENCE_READ, read_handlers.repository_config),
    NessieRoute("POST", "/config/repository", Right.CATALOG_UPDATE, read_handlers.update_repository_config),
    NessieRoute("GET", "/trees", Right.REFERENCE_READ, reference_handlers.list_references),
    NessieRoute("POST", "/trees", Right.REFERENCE_CREATE, reference_handlers.create_reference),
    NessieRoute("GET", _REF, Right.REFERENCE_READ, reference_handlers.get_reference),
    NessieRoute("PUT", _REF, Right.REFERENCE_ASSIGN, reference_handlers.assign_reference),
    NessieRoute("DELETE", _REF, Right.REFERENCE_DELETE, reference_handlers.delete_reference),
    NessieRoute("GET", f"{_REF}/recent-changes", Right.CATALOG_READ, reference_handlers.recent_changes),
    NessieRoute("GET", f"{_REF}/history", Right.CATALOG_READ, read_handlers.history),
    NessieRoute("GET", f"{_REF}/entries", Right.CATALOG_READ, read_handlers.entries),
    NessieRoute("GET", f"{_REF}/contents", Right.TABLE_READ, read_handlers.some_contents, by_key=True),
    NessieRoute("POST", f"{_REF}/contents", Right.TABLE_READ, read_handlers.many_contents, by_key=True),
    NessieRoute("GET", f"{_REF}/contents/{{key}}", Right.TABLE_READ, read_handlers.content, by_key=True),
    NessieRoute(
        "POST",
        f"{_REF}/history/commit",
        Right.COMMIT_WRITE,
        on_loop=commit_handler.commit,
        by_key=True,
        ask_first=commit_handler.require_rights,
    ),
    NessieRoute("POST", f"{_REF}/history/merge", Right.CATALOG_WRITE, merge_handlers.merge),
    NessieRoute("POST", f"{_REF}/history/transplant", Right.CATALOG_WRITE, merge_handlers.transplant),
    NessieRoute("GET", "/trees/{from}/diff/{to}", Right.CATALOG_READ, read_handlers.diff),
)


class RouteMatch(NamedTuple):
    by_method: dict[str, NessieRoute]
    names: dict[str, str]


def find_route(segments: list[str]) -> RouteMatch | None:
    """By decoded segments behind `/v2`."""
    found = _match(segments)
    if found is not None or segments[:1] != ["trees"]:
        return found
    return _match(_joined(segments))


def _match(segments: list[str]) -> RouteMatch | None:
    for parts, by_method in _BY_LENGTH.get(len(segments), ()):
        if all(part[0] == "{" or part == segment for part, segment in zip(parts, segments, strict=True)):
            names = {part[1:-1]: segment for part, segment in zip(parts, segments, strict=True) if part[0] == "{"}
            return RouteMatch(by_method, names)
    return None


def _joined(segments: list[str]) -> list[str]:
    """References with slashes as one segment each: the first behind `trees`, a second one behind `diff`."""
    first = next((position for position, segment in enumerate(segments) if "@" in segment), 0)
    if first < 1:
        return segments
    joined = ["trees", "/".join(segments[1 : first + 1]), *segments[first + 1 :]]
    if joined[2:3] == ["diff"] and len(joined) > 4 and "@" in joined[-1]:
        return [*joined[:3], "/".join(joined[3:])]
    return joined


def _by_length() -> dict[int, list[tuple[list[str], dict[str, NessieRoute]]]]:
    """Fixed words come first."""
    paths: dict[str, dict[str, NessieRoute]] = {}
    for route in ROUTES:
        paths.setdefault(route.path, {})[route.method] = route
    found: dict[int, list[tuple[list[str], dict[str, NessieRoute]]]] = {}
    for path, by_method in sorted(paths.items(), key=lambda item: item[0].count("{")):
        parts = path.strip("/").split("/")
        found.setdefault(len(parts), []).append((parts, by_method))
    return found


_BY_LENGTH = _by_length()
