"""The right that each route needs, and over what: one table for the endpoint, the docs and the tests.

Rights are asked for before anything is looked up, so a refusal is the same for what is there and what is not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from headwater.schemas.change import KeyPath
from headwater.schemas.errors import InvalidInput, NotPermitted
from headwater.service.auth.access import Access
from headwater.service.auth.caller import Caller
from headwater.service.auth.rights.rights import Right, Securable
from headwater.service.dev_realm import DEV_CATALOG
from headwater.service.iceberg.call import IcebergCall, namespace_of
from headwater.service.iceberg.content_handlers import Registration, Renaming, TableCommit, Transaction
from headwater.service.iceberg.operations.lakes import prefix_of
from headwater.service.iceberg.operations.tables import TableCreation
from headwater.service.iceberg.operations.views import ViewCreation
from headwater.service.iceberg.plain_handlers import NamespaceCreation

Needed = Iterable[tuple[Right, KeyPath]]


class Need(NamedTuple):
    right: Right | None
    """None for any right at all."""
    also: Right | None = None
    """At the second place of a rename."""
    where: str = "catalog"
    find: Callable[[IcebergCall], Iterable[KeyPath]] = lambda call: [()]
    somewhere: bool = False
    """Anywhere in the catalog will do."""


def _namespace(call: IcebergCall) -> Iterable[KeyPath]:
    return [call.namespace]


def _table(call: IcebergCall) -> Iterable[KeyPath]:
    return [call.table]


def _view(call: IcebergCall) -> Iterable[KeyPath]:
    return [call.view]


def _parent(call: IcebergCall) -> Iterable[KeyPath]:
    parent = call.query.get("parent")
    return [namespace_of(parent) if parent else ()]


def _new_namespace(call: IcebergCall) -> Iterable[KeyPath]:
    return [tuple(call.read(NamespaceCreation).namespace)]


def _new_table(call: IcebergCall) -> Iterable[KeyPath]:
    return [(*call.namespace, call.read(TableCreation).name)]


def _new_view(call: IcebergCall) -> Iterable[KeyPath]:
    return [(*call.namespace, call.read(ViewCreation).name)]


def _registered(call: IcebergCall) -> Iterable[KeyPath]:
    return [(*call.namespace, call.read(Registration).name)]


def _renamed(call: IcebergCall) -> Iterable[KeyPath]:
    body = call.read(Renaming)
    return [body.source.key, body.destination.key]


def _changed_tables(call: IcebergCall) -> Iterable[KeyPath]:
    changes = call.read(Transaction).table_changes
    if any(change.identifier is None for change in changes):
        raise InvalidInput("A table change says no table.", field="identifier")
    return [change.identifier.key for change in changes if change.identifier is not None]


def _need(right: Right, find: Callable[[IcebergCall], Iterable[KeyPath]], also: Right | None = None) -> Need:
    return Need(right, also, (find.__name__).strip("_").replace("_", " "), find)


_R = Right
_NAMESPACES = "/v1/{prefix}/namespaces"
_NAMESPACE = f"{_NAMESPACES}/{{namespace}}"
_TABLE = f"{_NAMESPACE}/tables/{{table}}"
_VIEW = f"{_NAMESPACE}/views/{{view}}"

PUBLIC = frozenset({("POST", "/v1/oauth/tokens")})
"""What asks for no token, for it gives one out."""

RIGHTS: dict[tuple[str, str], Need] = {
    ("GET", "/v1/config"): Need(None, where="warehouse", somewhere=True),
    ("GET", _NAMESPACES): _need(_R.NAMESPACE_LIST, _parent),
    ("POST", _NAMESPACES): _need(_R.NAMESPACE_CREATE, _new_namespace),
    ("GET", _NAMESPACE): _need(_R.NAMESPACE_READ, _namespace),
    ("HEAD", _NAMESPACE): _need(_R.NAMESPACE_READ, _namespace),
    ("DELETE", _NAMESPACE): _need(_R.NAMESPACE_DROP, _namespace),
    ("POST", f"{_NAMESPACE}/properties"): _need(_R.NAMESPACE_WRITE, _namespace),
    ("GET", f"{_NAMESPACE}/tables"): _need(_R.TABLE_LIST, _namespace),
    ("POST", f"{_NAMESPACE}/tables"): _need(_R.TABLE_CREATE, _new_table),
    ("POST", f"{_NAMESPACE}/register"): _need(_R.TABLE_CREATE, _registered),
    ("GET", _TABLE): _need(_R.TABLE_READ, _table),
    ("POST", _TABLE): _need(_R.TABLE_WRITE, _table),
    ("DELETE", _TABLE): _need(_R.TABLE_DROP, _table),
    ("HEAD", _TABLE): _need(_R.TABLE_READ, _table),
    ("POST", f"{_TABLE}/unregister"): _need(_R.TABLE_DROP, _table),
    ("GET", f"{_TABLE}/credentials"): _need(_R.TABLE_READ, _table),
    ("POST", f"{_TABLE}/metrics"): _need(_R.TABLE_READ, _table),
    ("POST", "/v1/{prefix}/tables/rename"): _need(_R.TABLE_DROP, _renamed, also=_R.TABLE_CREATE),
    ("POST", "/v1/{prefix}/transactions/commit"): _need(_R.TABLE_WRITE, _changed_tables),
    ("GET", f"{_NAMESPACE}/views"): _need(_R.VIEW_LIST, _namespace),
    ("POST", f"{_NAMESPACE}/views"): _need(_R.VIEW_CREATE, _new_view),
    ("GET", _VIEW): _need(_R.VIEW_READ, _view),
    ("POST", _VIEW): _need(_R.VIEW_WRITE, _view),
    ("DELETE", _VIEW): _need(_R.VIEW_DROP, _view),
    ("HEAD", _VIEW): _need(_R.VIEW_READ, _view),
    ("POST", "/v1/{prefix}/views/rename"): _need(_R.VIEW_DROP, _renamed, also=_R.VIEW_CREATE),
    ("POST", f"{_NAMESPACE}/register-view"): _need(_R.VIEW_CREATE, _registered),
    ("POST", "/v1/{prefix}/events"): Need(_R.FEED_READ, where="catalog", somewhere=True),
}


def _creating(call: IcebergCall) -> Needed:
    return [(_R.TABLE_CREATE, call.table)] if call.read(TableCommit).creates else []


def _creating_some(call: IcebergCall) -> Needed:
    changes = call.read(Transaction).table_changes
    return [(_R.TABLE_CREATE, change.identifier.key) for change in changes if change.creates and change.identifier is not None]


def _registering(call: IcebergCall) -> Needed:
    """Reads a file that may belong to any table; with `overwrite` it replaces the table that is there."""
    body = call.read(Registration)
    yield _R.TABLE_READ, ()
    if body.overwrite:
        yield _R.TABLE_WRITE, (*call.namespace, body.name)


def _registering_view(call: IcebergCall) -> Needed:
    body = call.read(Registration)
    yield _R.VIEW_READ, ()
    if body.overwrite:
        yield _R.VIEW_WRITE, (*call.namespace, body.name)


MORE: dict[tuple[str, str], Callable[[IcebergCall], Needed]] = {
    ("POST", _TABLE): _creating,
    ("POST", "/v1/{prefix}/transactions/commit"): _creating_some,
    ("POST", f"{_TABLE}/unregister"): lambda call: [(_R.TABLE_READ, call.table)],
    ("POST", f"{_NAMESPACE}/register"): _registering,
    ("POST", f"{_NAMESPACE}/register-view"): _registering_view,
}
"""⚠ What a request needs beside: an update may create a table, and registering reads a file that may be of any table."""


async def require_route(access: Access, caller: Caller, method: str, path: str, call: IcebergCall) -> None:
    """⚠ A route that the table does not have needs everything, so that a forgotten one is closed and not open."""
    if caller.development:
        return
    need = RIGHTS.get((method, path), Need(Right.REALM_MANAGE))
    catalog = _catalog_of(call)
    if need.somewhere:
        await _require_somewhere(access, caller, need.right, catalog)
        return
    right = need.right or Right.REALM_MANAGE
    for position, key in enumerate(need.find(call)):
        await access.require(caller, right if position == 0 or need.also is None else need.also, Securable(catalog, key))
    for right, key in MORE[method, path](call) if (method, path) in MORE else ():
        await access.require(caller, right, Securable(catalog, key))


async def _require_somewhere(access: Access, caller: Caller, right: Right | None, catalog: str) -> None:
    if not await access.allows_somewhere_async(caller, right, catalog):
        await access.require(caller, right or Right.CATALOG_READ, Securable(catalog))
        raise NotPermitted("it may not be read.", field="authorization")  # granted in between: the next try finds it


def _catalog_of(call: IcebergCall) -> str:
    prefix = call.names.get("prefix") or prefix_of(call.query.get("warehouse") or DEV_CATALOG)
    return prefix.partition("@")[0]
