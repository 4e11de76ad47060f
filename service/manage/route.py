"""What the right of a management route is over."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from headwater.service.auth.rights.rights import REALM, Right, Securable
from headwater.service.gate.request import LEVELS
from headwater.service.gate.route import Needs
from headwater.service.http.responses import Response
from headwater.service.manage.call import ManageCall

Handler = Callable[[ManageCall], Response]
PREFIX = "/manage/v1"
REALMS = f"{PREFIX}/realms"
IN_REALM = f"{PREFIX}/{{realm}}"
IN_CATALOG = f"{IN_REALM}/catalogs/{{catalog}}"


class Over(Enum):
    """What the right is needed over."""

    SYSTEM = "the system realm"
    """A token of the system realm is asked for."""
    REALM = "the realm"
    CATALOG = "the catalog"
    NAMESPACE = "the namespace"
    PARENT = "the parent namespace"
    ANY_CATALOG = "any catalog"
    """Held over any catalog: the handler shows just those."""

    def needs(self, right: Right) -> Needs:
        path = _PATHS.get(self)
        if path is None:
            return Needs(right=right, where=self.value, is_filtered=True)
        return Needs(right=right, where=self.value, path=lambda call: [(right, path(call))], is_system=self is Over.SYSTEM)


def namespace_of(call: ManageCall) -> Securable:
    return Securable(call.names["catalog"], tuple(call.names["namespace"].split(LEVELS)))


def _parent(call: ManageCall) -> Securable:
    parent: str | None = call.query.get("parent")
    return Securable(call.names["catalog"], tuple(parent.split(LEVELS)) if parent else ())


_PATHS: dict[Over, Callable[[ManageCall], Securable]] = {
    Over.SYSTEM: lambda call: REALM,
    Over.REALM: lambda call: REALM,
    Over.CATALOG: lambda call: Securable(call.names["catalog"]),
    Over.NAMESPACE: namespace_of,
    Over.PARENT: _parent,
}
