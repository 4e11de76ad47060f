"""The routes of the specification and their handlers; requests are matched here, and the docs list it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from headwater.schemas.errors import Unsupported
from headwater.service.http.responses import Response
from headwater.service.iceberg import content_handlers as content
from headwater.service.iceberg import event_handlers as events
from headwater.service.iceberg import plain_handlers as plain
from headwater.service.iceberg.call import IcebergCall

Handler = Callable[[IcebergCall], Response]
LoopHandler = Callable[[IcebergCall], Awaitable[Response]]

_NAMESPACES = "/v1/{prefix}/namespaces"
_NAMESPACE = f"{_NAMESPACES}/{{namespace}}"
_TABLE = f"{_NAMESPACE}/tables/{{table}}"
_VIEW = f"{_NAMESPACE}/views/{{view}}"


class IcebergRoute(NamedTuple):
    method: str
    path: str
    handler: Handler | LoopHandler | None
    """None for what is refused with 406; a coroutine runs on the event loop, anything else on a thread."""
    advertised: bool = True
    """Among the endpoints of the configuration."""
    reads: bool = False
    """A POST that changes nothing."""

    @property
    def changes(self) -> bool:
        return self.method in ("POST", "DELETE") and not self.reads


def _config(call: IcebergCall) -> Response:
    return plain.config(call, endpoints())


ROUTES = (
    IcebergRoute("GET", "/v1/config", _config, advertised=False),
    IcebergRoute("POST", "/v1/oauth/tokens", plain.token, advertised=False, reads=True),
    IcebergRoute("GET", _NAMESPACES, plain.list_namespaces),
    IcebergRoute("POST", _NAMESPACES, plain.create_namespace),
    IcebergRoute("GET", _NAMESPACE, plain.load_namespace),
    IcebergRoute("HEAD", _NAMESPACE, plain.namespace_exists),
    IcebergRoute("DELETE", _NAMESPACE, plain.drop_namespace),
    IcebergRoute("POST", f"{_NAMESPACE}/properties", plain.update_namespace),
    IcebergRoute("GET", f"{_NAMESPACE}/tables", content.list_tables),
    IcebergRoute("POST", f"{_NAMESPACE}/tables", content.create_table),
    IcebergRoute("GET", f"{_NAMESPACE}/functions", None),
    IcebergRoute("GET", f"{_NAMESPACE}/functions/{{function}}", None),
    IcebergRoute("POST", f"{_TABLE}/plan", None),
    IcebergRoute("GET", f"{_TABLE}/plan/{{plan-id}}", None),
    IcebergRoute("DELETE", f"{_TABLE}/plan/{{plan-id}}", None),
    IcebergRoute("POST", f"{_TABLE}/tasks", None),
    IcebergRoute("POST", f"{_NAMESPACE}/register", content.register_table),
    IcebergRoute("GET", _TABLE, content.load_table),
    IcebergRoute("POST", _TABLE, content.update_table),
    IcebergRoute("DELETE", _TABLE, content.drop_table),
    IcebergRoute("HEAD", _TABLE, content.table_exists),
    IcebergRoute("POST", f"{_TABLE}/unregister", content.unregister_table),
    IcebergRoute("GET", f"{_TABLE}/credentials", content.load_credentials),
    IcebergRoute("POST", f"{_TABLE}/sign", None),
    IcebergRoute("POST", "/v1/{prefix}/tables/rename", content.rename_table),
    IcebergRoute("POST", f"{_TABLE}/metrics", content.report_metrics, reads=True),
    IcebergRoute("POST", "/v1/{prefix}/transactions/commit", content.commit_transaction),
    IcebergRoute("GET", f"{_NAMESPACE}/views", content.list_views),
    IcebergRoute("POST", f"{_NAMESPACE}/views", content.create_view),
    IcebergRoute("GET", _VIEW, content.load_view),
    IcebergRoute("POST", _VIEW, content.replace_view),
    IcebergRoute("DELETE", _VIEW, content.drop_view),
    IcebergRoute("HEAD", _VIEW, content.view_exists),
    IcebergRoute("POST", "/v1/{prefix}/views/rename", content.rename_view),
    IcebergRoute("POST", f"{_NAMESPACE}/register-view", content.register_view),
    IcebergRoute("POST", "/v1/{prefix}/events", events.query_events, reads=True),
)


class RouteMatch(NamedTuple):
    by_method: dict[str, IcebergRoute]
    names: dict[str, str]


def endpoints() -> list[str]:
    return [f"{route.method} {route.path}" for route in ROUTES if route.advertised and route.handler is not None]


def find_route(segments: list[str]) -> RouteMatch | None:
    """By decoded segments; a fixed word wins over a name."""
    node, names = _TREE, []
    for segment in segments:
        following = node.words.get(segment) or node.name
        if following is None:
            return None
        if following is node.name:
            names.append(segment)
        node = following
    if not node.routes:
        return None
    wanted = [part[1:-1] for part in next(iter(node.routes.values())).path.split("/") if part.startswith("{")]
    return RouteMatch(node.routes, dict(zip(wanted, names, strict=True)))


def refused(route: IcebergRoute) -> Unsupported:
    return Unsupported(f"{route.method} {route.path} is not supported.", remedy="See the endpoints of /v1/config.")


class _Node:
    def __init__(self) -> None:
        self.words: dict[str, _Node] = {}
        self.name: _Node | None = None
        self.routes: dict[str, IcebergRoute] = {}


def _tree() -> _Node:
    root = _Node()
    for route in ROUTES:
        node = root
        for part in route.path.strip("/").split("/"):
            if part.startswith("{"):
                node.name = node.name or _Node()
                node = node.name
            else:
                node = node.words.setdefault(part, _Node())
        node.routes[route.method] = route
    return root


_TREE = _tree()
