"""A management route: method, path, handler, right, request and response types."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, NamedTuple

import msgspec

from headwater.service.auth.rights.rights import REALM, Right, Securable
from headwater.service.http.parameters import Parameter
from headwater.service.http.responses import Response
from headwater.service.manage.call import LEVELS, ManageCall

Handler = Callable[[ManageCall], Response]
PREFIX = "/manage/v1"
REALMS = f"{PREFIX}/realms"
IN_REALM = f"{PREFIX}/{{realm}}"
IN_CATALOG = f"{IN_REALM}/catalogs/{{catalog}}"


class Over(Enum):
    """What the right is needed over."""

    SYSTEM = "system"
    """A token of the system realm is asked for."""
    REALM = "realm"
    CATALOG = "catalog"
    NAMESPACE = "namespace"
    PARENT = "parent"
    ANY_CATALOG = "any-catalog"
    """Held over any catalog: the handler shows just those."""
    IN_BODY = "in-body"
    """The handler asks, for the body names what it is over."""


class ManageRoute(NamedTuple):
    method: str
    path: str
    summary: str
    handler: Handler
    right: Right
    over: Over = Over.REALM
    parameters: tuple[Parameter, ...] = ()
    body: type[msgspec.Struct] | None = None
    answer: type[msgspec.Struct] | None = None
    status: int = 200
    has_secret: bool = False
    """The answer shows one: what is kept of it under its key does not."""


def securable_of(route: ManageRoute, names: Mapping[str, str], query: Mapping[str, Any]) -> Securable | None:
    """What the right is asked for over, before anything is looked up; None where the handler asks by itself."""
    match route.over:
        case Over.SYSTEM | Over.REALM:
            return REALM
        case Over.CATALOG:
            return Securable(names["catalog"])
        case Over.NAMESPACE:
            return Securable(names["catalog"], tuple(names["namespace"].split(LEVELS)))
        case Over.PARENT:
            parent: str | None = query.get("parent")
            return Securable(names["catalog"], tuple(parent.split(LEVELS)) if parent else ())
        case Over.ANY_CATALOG | Over.IN_BODY:
            return None
