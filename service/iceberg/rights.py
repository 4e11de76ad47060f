"""What Iceberg routes need, and over which keys: what the path names before the body is read, what the body names after."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from headwater.schemas.change import KeyPath
from headwater.schemas.errors import InvalidInput
from headwater.service.auth.rights.rights import Right, Securable
from headwater.service.dev_realm import DEV_CATALOG
from headwater.service.gate.route import Needs
from headwater.service.iceberg.call import IcebergCall, namespace_of
from headwater.service.iceberg.content_handlers import Registration, Renaming, TableCommit, Transaction
from headwater.service.iceberg.operations.delegation import needs_write
from headwater.service.iceberg.operations.lakes import prefix_of
from headwater.service.iceberg.operations.tables import TableCreation
from headwater.service.iceberg.operations.views import ViewCreation
from headwater.service.iceberg.plain_handlers import NamespaceCreation
from headwater.service.storage.remote_signing import SignRequest

Needed = Iterable[tuple[Right, KeyPath]]
Find = Callable[[IcebergCall], Needed]


def by_path(right: Right, where: str, find: Callable[[IcebergCall], KeyPath], more: Find | None = None) -> Needs:
    """Over what the path names; `more` is what the body needs beside."""
    return Needs(
        right=right,
        where=where,
        path=_in_catalog(lambda call: [(right, find(call))]),
        body=None if more is None else _in_catalog(more),
    )


def by_body(right: Right, where: str, find: Find, also: Right | None = None) -> Needs:
    """Over what the body names."""
    return Needs(right=right, where=where, also=also, body=_in_catalog(find), anywhere=(right,))


def _in_catalog(find: Find) -> Callable[[IcebergCall], Iterable[tuple[Right, Securable]]]:
    def needed(call: IcebergCall) -> Iterable[tuple[Right, Securable]]:
        catalog = catalog_of(call)
        return ((right, Securable(catalog, key)) for right, key in find(call))

    return needed


def catalog_of(call: IcebergCall) -> str:
    prefix = call.names.get("prefix") or prefix_of(call.text("warehouse") or DEV_CATALOG)
    return prefix.partition("@")[0]


def over_namespace(right: Right) -> Needs:
    return by_path(right, "namespace", lambda call: call.namespace)


def over_table(right: Right, more: Find | None = None) -> Needs:
    return by_path(right, "table", lambda call: call.table, more)


def over_view(right: Right) -> Needs:
    return by_path(right, "view", lambda call: call.view)


def parent(call: IcebergCall) -> KeyPath:
    named = call.text("parent")
    return namespace_of(named) if named else ()


def new_namespace(call: IcebergCall) -> Needed:
    return [(Right.NAMESPACE_CREATE, tuple(call.read(NamespaceCreation).namespace))]


def new_table(call: IcebergCall) -> Needed:
    return [(Right.TABLE_CREATE, (*call.namespace, call.read(TableCreation).name))]


def new_view(call: IcebergCall) -> Needed:
    return [(Right.VIEW_CREATE, (*call.namespace, call.read(ViewCreation).name))]


def registered_table(call: IcebergCall) -> Needed:
    """Reads a file that may belong to any table; with `overwrite` it replaces the table that is there."""
    return _registered(call, Right.TABLE_CREATE, Right.TABLE_READ, Right.TABLE_WRITE)


def registered_view(call: IcebergCall) -> Needed:
    return _registered(call, Right.VIEW_CREATE, Right.VIEW_READ, Right.VIEW_WRITE)


def _registered(call: IcebergCall, create: Right, read: Right, write: Right) -> Needed:
    body = call.read(Registration)
    key = (*call.namespace, body.name)
    yield create, key
    yield read, ()
    if body.overwrite:
        yield write, key


def renamed(drop: Right, create: Right) -> Find:
    def needed(call: IcebergCall) -> Needed:
        body = call.read(Renaming)
        return [(drop, body.source.key), (create, body.destination.key)]

    return needed


def creating(call: IcebergCall) -> Needed:
    """⚠ An update may create a table."""
    return [(Right.TABLE_CREATE, call.table)] if call.read(TableCommit).creates else []


def signed_write(call: IcebergCall) -> Needed:
    return [(Right.TABLE_WRITE, call.table)] if needs_write(call.read(SignRequest)) else []


def changed_tables(call: IcebergCall) -> Needed:
    for change in call.read(Transaction).table_changes:
        if change.identifier is None:
            raise InvalidInput("A table change says no table.", field="identifier")
        yield Right.TABLE_WRITE, change.identifier.key
        if change.creates:
            yield Right.TABLE_CREATE, change.identifier.key
