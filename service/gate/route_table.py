"""All routes of all APIs: requests are matched here, and the OpenAPI, the docs and the isolation test are generated from it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple
from urllib.parse import unquote

from headwater.schemas.errors import InvalidInput
from headwater.service.gate.route import Api, Route
from headwater.service.http.responses import Scope

MATCHES_KEPT_MAX = 4_096
PATH_KEPT_BYTES_MAX = 512


class RouteMatch(NamedTuple):
    api: Api
    by_method: dict[str, Route]
    """Empty where nothing is at the path."""
    names: dict[str, str]


class RouteTable:
    """⚠ Refuses a route that does not say who may call it, what it may cost, or how it renders errors: such a server must not
    start."""

    def __init__(self, apis: Iterable[Api]) -> None:
        self.apis = tuple(apis)
        self._roots: dict[str, _Node] = {}
        self._by_word: dict[str, Api] = {}
        for api in self.apis:
            _check(api)
            self._roots[api.name] = _tree(api)
            self._by_word[api.prefix.strip("/").partition("/")[0]] = api
        if "" not in self._by_word:
            raise ValueError("no API has the empty prefix: an unknown path would have no error shape")
        self._kept: dict[bytes, RouteMatch] = {}

    @property
    def routes(self) -> Iterator[tuple[Api, Route]]:
        return ((api, route) for api in self.apis for route in api.routes)

    def api(self, scope: Scope) -> Api:
        """By the first word of the path."""
        return self._by_word.get(scope["path"][1:].partition("/")[0]) or self._by_word[""]

    def find(self, scope: Scope) -> RouteMatch:
        """⚠ By the raw path: a name may hold an encoded slash, which the decoded path cannot distinguish from a real one."""
        raw: bytes = scope.get("raw_path") or scope["path"].encode()
        kept = self._kept.get(raw)
        if kept is not None:
            return kept
        api = self.api(scope)
        found = self._match(api, _segments(raw, api)) or RouteMatch(api, {}, {})
        if len(raw) <= PATH_KEPT_BYTES_MAX and found.by_method:
            if len(self._kept) >= MATCHES_KEPT_MAX:
                self._kept.clear()
            self._kept[raw] = found
        return found

    def _match(self, api: Api, segments: list[str]) -> RouteMatch | None:
        found = _match(self._roots[api.name], segments, 0, [])
        if found is None and api.rejoin is not None:
            found = _match(self._roots[api.name], api.rejoin(segments), 0, [])
        if found is None:
            return None
        node, names = found
        return RouteMatch(api, node.routes, dict(zip(node.names, names, strict=True)))


class _Node:
    def __init__(self) -> None:
        self.words: dict[str, _Node] = {}
        self.name: _Node | None = None
        self.routes: dict[str, Route] = {}
        self.names: list[str] = []
        """Names of the variable segments on the way here."""


def _tree(api: Api) -> _Node:
    root = _Node()
    for route in api.routes:
        _add(root, route.path, route)
        if api.alias:
            _add(root, api.alias + route.path.removeprefix(api.alias_of), route)
    return root


def _add(root: _Node, path: str, route: Route) -> None:
    node, parts = root, path[1:].split("/")
    for part in parts:
        if part.startswith("{"):
            node.name = node.name or _Node()
            node = node.name
        else:
            node = node.words.setdefault(part, _Node())
    if route.method in node.routes:
        raise ValueError(f"{route.method} {path} is declared twice")
    node.routes[route.method] = route
    node.names = [part[1:-1] for part in parts if part.startswith("{")]


def _match(node: _Node, segments: Sequence[str], at: int, names: list[str]) -> tuple[_Node, list[str]] | None:
    """A word of the API wins over a name."""
    if at == len(segments):
        return (node, names) if node.routes else None
    segment = segments[at]
    if segment in node.words and (found := _match(node.words[segment], segments, at + 1, names)) is not None:
        return found
    return None if node.name is None or not segment else _match(node.name, segments, at + 1, [*names, segment])


def _segments(raw: bytes, api: Api) -> list[str]:
    """Each name decoded by itself."""
    try:
        path = raw.partition(b"?")[0].decode("ascii")[1:]
        if api.is_lenient:
            first, _, rest = path.partition("/")
            path = f"{first}/{rest.strip('/')}" if rest.strip("/") else first
        return [unquote(segment, errors="strict") if "%" in segment else segment for segment in path.split("/")]
    except UnicodeDecodeError:
        raise InvalidInput("the path is not percent-encoded UTF-8.", field="path", remedy="Percent-encode it.") from None


def _check(api: Api) -> None:
    if api.errors is None:
        raise ValueError(f"the API {api.name!r} does not say how it renders errors")
    for route in api.routes:
        said = f"{route.method} {route.path}"
        if not route.path.startswith(f"{api.prefix}/"):
            raise ValueError(f"{said} is not below {api.prefix!r}")
        if route.needs is None or not (route.needs.is_public or _asks(route)):
            raise ValueError(f"{said} does not say which right it needs")
        if route.budget is None:
            raise ValueError(f"{said} does not say what it may cost")
        if (route.body is None and route.form is None) != (route.budget.bytes_max == 0):
            raise ValueError(f"{said} reads a body without a budget for it, or has one for none")


def _asks(route: Route) -> bool:
    """Something must refuse: a right that is declared and asked for nowhere is worth nothing."""
    needs = route.needs
    if needs is None or (needs.right is None and needs.somewhere is None):
        return False
    return bool(needs.path or needs.somewhere or needs.body or needs.check or needs.is_filtered)
