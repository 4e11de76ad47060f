"""All rights, what each implies, and what it can be granted over. Pure."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from headwater.schemas.change import KeyPath
from headwater.schemas.errors import InvalidInput


class Right(StrEnum):
    SYSTEM_MANAGE = "system.manage"
    """Realms themselves: create, open, close, purge, and read the log of that. Only in `::system::`, implied by nothing."""
    REALM_MANAGE = "realm.manage"
    """Everything in one realm."""
    ACCESS_MANAGE = "access.manage"
    """Principals, roles, grants, and the list of denials."""
    POLICY_MANAGE = "policy.manage"
    POLICY_READ = "policy.read"
    CATALOG_MANAGE = "catalog.manage"
    """Everything in a catalog, its roles and grants among it."""
    CATALOG_CREATE = "catalog.create"
    CATALOG_LIST = "catalog.list"
    CATALOG_READ = "catalog.read"
    """Everything in a catalog that only reads."""
    CATALOG_WRITE = "catalog.write"
    """Everything in a catalog that reads or writes contents and references; not its properties, nor dropping it."""
    CATALOG_UPDATE = "catalog.update"
    CATALOG_DROP = "catalog.drop"
    REFERENCE_READ = "reference.read"
    REFERENCE_CREATE = "reference.create"
    REFERENCE_ASSIGN = "reference.assign"
    REFERENCE_DELETE = "reference.delete"
    COMMIT_WRITE = "commit.write"
    """Commit anything below a path, whatever its type."""
    NAMESPACE_LIST = "namespace.list"
    NAMESPACE_READ = "namespace.read"
    NAMESPACE_CREATE = "namespace.create"
    NAMESPACE_WRITE = "namespace.write"
    NAMESPACE_DROP = "namespace.drop"
    TABLE_LIST = "table.list"
    TABLE_READ = "table.read"
    TABLE_CREATE = "table.create"
    TABLE_WRITE = "table.write"
    TABLE_DROP = "table.drop"
    VIEW_LIST = "view.list"
    VIEW_READ = "view.read"
    VIEW_CREATE = "view.create"
    VIEW_WRITE = "view.write"
    VIEW_DROP = "view.drop"
    FEED_READ = "feed.read"
    """See the changes, and the state, of what is at or below a path."""
    SUBSCRIPTION_MANAGE = "subscription.manage"
    METRICS_READ = "metrics.read"
    CONNECTOR_READ = "connector.read"
    CONNECTOR_MANAGE = "connector.manage"
    """Create, change, run and remove connectors; creating one also needs `catalog.manage` over its destination."""
    STATISTICS_READ = "statistics.read"
    STATISTICS_WRITE = "statistics.write"
    """Publish and delete statistics of tables."""
    OBLIGATION_ENFORCE = "obligation.enforce"
    """Be given the files and values of tables with column masks or row filters, and enforce these. For trusted engines."""


_R = Right
IMPLIED: dict[Right, frozenset[Right]] = {
    _R.SYSTEM_MANAGE: frozenset({_R.FEED_READ}),
    _R.REALM_MANAGE: frozenset(Right) - {_R.SYSTEM_MANAGE, _R.REALM_MANAGE},
    _R.POLICY_MANAGE: frozenset({_R.POLICY_READ}),
    _R.CONNECTOR_MANAGE: frozenset({_R.CONNECTOR_READ}),
    _R.CATALOG_MANAGE: frozenset({_R.CATALOG_WRITE, _R.CATALOG_UPDATE, _R.CATALOG_DROP, _R.POLICY_READ}),
    _R.CATALOG_READ: frozenset(
        {_R.CATALOG_LIST, _R.REFERENCE_READ, _R.NAMESPACE_READ, _R.TABLE_READ, _R.VIEW_READ, _R.FEED_READ}
    ),
    _R.CATALOG_WRITE: frozenset(
        {
            _R.CATALOG_READ,
            _R.COMMIT_WRITE,
            _R.REFERENCE_CREATE,
            _R.REFERENCE_ASSIGN,
            _R.REFERENCE_DELETE,
            _R.SUBSCRIPTION_MANAGE,
        }
    ),
    _R.COMMIT_WRITE: frozenset(
        {
            _R.NAMESPACE_CREATE,
            _R.NAMESPACE_WRITE,
            _R.NAMESPACE_DROP,
            _R.TABLE_CREATE,
            _R.TABLE_WRITE,
            _R.TABLE_DROP,
            _R.VIEW_CREATE,
            _R.VIEW_WRITE,
            _R.VIEW_DROP,
        }
    ),
    _R.REFERENCE_CREATE: frozenset({_R.REFERENCE_READ}),
    _R.REFERENCE_ASSIGN: frozenset({_R.REFERENCE_READ}),
    _R.REFERENCE_DELETE: frozenset({_R.REFERENCE_READ}),
    _R.NAMESPACE_READ: frozenset({_R.NAMESPACE_LIST}),
    _R.NAMESPACE_CREATE: frozenset({_R.NAMESPACE_LIST}),
    _R.NAMESPACE_WRITE: frozenset({_R.NAMESPACE_READ}),
    _R.NAMESPACE_DROP: frozenset({_R.NAMESPACE_LIST}),
    _R.TABLE_READ: frozenset({_R.TABLE_LIST, _R.STATISTICS_READ}),
    _R.TABLE_CREATE: frozenset({_R.TABLE_LIST}),
    _R.TABLE_WRITE: frozenset({_R.TABLE_READ, _R.STATISTICS_WRITE}),
    _R.TABLE_DROP: frozenset({_R.TABLE_LIST}),
    _R.STATISTICS_WRITE: frozenset({_R.STATISTICS_READ}),
    _R.VIEW_READ: frozenset({_R.VIEW_LIST}),
    _R.VIEW_CREATE: frozenset({_R.VIEW_LIST}),
    _R.VIEW_WRITE: frozenset({_R.VIEW_READ}),
    _R.VIEW_DROP: frozenset({_R.VIEW_LIST}),
}
"""The rights that a right directly implies; `implied_by` follows them transitively."""

REALM_ONLY = frozenset(
    {
        _R.SYSTEM_MANAGE,
        _R.REALM_MANAGE,
        _R.ACCESS_MANAGE,
        _R.POLICY_MANAGE,
        _R.CATALOG_CREATE,
        _R.METRICS_READ,
        _R.CONNECTOR_READ,
        _R.CONNECTOR_MANAGE,
    }
)
"""Rights that mean nothing inside a catalog: they are granted over the realm alone."""


class Securable(msgspec.Struct, frozen=True):
    """The scope of a right: a realm (no catalog), a catalog (no key), or everything at and below a key."""

    catalog: str | None = None
    key: KeyPath = ()

    def __str__(self) -> str:
        if self.catalog is None:
            return "the realm"
        return self.catalog if not self.key else f"{self.catalog}:{'.'.join(self.key)}"


REALM = Securable()


def _followed() -> dict[Right, frozenset[Right]]:
    def follow(right: Right) -> frozenset[Right]:
        return frozenset({right}).union(*(follow(one) for one in IMPLIED.get(right, ())))

    return {right: follow(right) for right in Right}


IMPLIED_BY_EACH = _followed()


def implied_by(right: Right) -> frozenset[Right]:
    """The right itself and all that it implies."""
    return IMPLIED_BY_EACH[right]


def right_of(name: str) -> Right:
    try:
        return Right(name)
    except ValueError:
        raise InvalidInput(f"{name[:80]!r} is not a right.", field="right", remedy=f"Use one of {', '.join(Right)}.") from None
