"""Refuses writes below a connector's destination by anybody but the connector, whichever API they come from.

⚠ Called while a commit is planned. Connectors are records under another pointer: their heads are read again once a second, and
a change that this server makes is seen at once. A commit that another process plans within that second may still land; the
connector's next run repairs it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence

import msgspec

from headwater.persistence.clock import MICROS
from headwater.persistence.commit.draft import Draft, PlannedOperation
from headwater.persistence.records.records import head_records
from headwater.persistence.store import RealmKernel
from headwater.producer.pointer_names import CONNECTORS, ReferenceType, parse_reference_pointer
from headwater.schemas.change import KeyPath, Value
from headwater.schemas.errors import DestinationOwned, MaintenanceStopped

BELIEVED_MICROS = 1 * MICROS


class OwnedPath(msgspec.Struct, frozen=True):
    """A connector's destination."""

    connector: str
    connector_id: str
    catalog_id: int
    branch: str
    path: KeyPath
    roots: Sequence[str] = ()
    """Where the files of its tables may lie."""

    def covers(self, key: KeyPath) -> bool:
        return key[: len(self.path)] == self.path


class _Where(msgspec.Struct, frozen=True):
    catalog_id: int
    branch: str
    path: KeyPath = ()


class _Known(msgspec.Struct, frozen=True):
    head: bytes
    paths: Sequence[OwnedPath]
    until: int
    """Microseconds."""


class _OwnedPaths:
    """One per realm instance. Thread-safe: what is known is replaced as a whole."""

    def __init__(self, kernel: RealmKernel) -> None:
        self._known: _Known | None = None
        self._moves = 0
        kernel.on_moved(self._moved)
        kernel.on_moved_by_peer(self._moved)

    def get(self, kernel: RealmKernel, *, fresh: bool = False) -> Sequence[OwnedPath]:
        now, known = kernel.store.clock.now_micros(), self._known
        if known is not None and not fresh and known.until - BELIEVED_MICROS <= now < known.until:
            return known.paths
        moves = self._moves
        row = kernel.read_pointer(CONNECTORS)
        head = b"" if row is None else row.head
        paths = known.paths if known is not None and known.head == head else _read(kernel) if head else ()
        if moves == self._moves:  # else it has changed since, and is read again
            self._known = _Known(head, paths, now + BELIEVED_MICROS)
        return paths

    def _moved(self, pointer: str, *_: object) -> None:
        if pointer == CONNECTORS:
            self._moves += 1
            self._known = None


_lock = threading.Lock()


def owned_in_realm(kernel: RealmKernel, *, fresh: bool = False) -> Sequence[OwnedPath]:
    """The destinations of all its connectors; `fresh` asks the store."""
    found = kernel.attached.get(_OwnedPaths)
    if not isinstance(found, _OwnedPaths):
        with _lock:
            found = kernel.attached.get(_OwnedPaths)
            if not isinstance(found, _OwnedPaths):
                found = kernel.attached[_OwnedPaths] = _OwnedPaths(kernel)
    return found.get(kernel, fresh=fresh)


def owned_paths(kernel: RealmKernel, pointer: str) -> Sequence[OwnedPath]:
    """Of connectors whose destination is in the catalog of a branch."""
    paths = owned_in_realm(kernel)
    if not paths:
        return ()
    named = parse_reference_pointer(pointer)
    return () if named is None else [one for one in paths if one.catalog_id == named.catalog_id]


def owner_of(kernel: RealmKernel, catalog_id: int, key: KeyPath) -> str | None:
    """The connector whose destination the key lies below, if any."""
    owners = (one.connector for one in owned_in_realm(kernel) if one.catalog_id == catalog_id and one.covers(key))
    return next(owners, None)


def roots_at(kernel: RealmKernel, catalog_id: int, key: KeyPath) -> Sequence[str]:
    """Where the files of a connector's table or view may lie; nowhere for any other."""
    owners = (one for one in owned_in_realm(kernel) if one.catalog_id == catalog_id and one.covers(key))
    return next((one.roots for one in owners), ())


def require_unowned(kernel: RealmKernel, catalog_id: int, key: KeyPath) -> None:
    """Before something is handed out that writes past the commit, such as the right to write files."""
    if owner := owner_of(kernel, catalog_id, key):
        raise _is_owned(key, owner)


def _is_owned(key: KeyPath, connector: str) -> DestinationOwned:
    return DestinationOwned(
        f"'{'.'.join(key)[:500]}' belongs to connector {connector!r}: no other commit may write there.",
        field="key",
        remedy="Change it at the connector's source, or remove the connector.",
        connector=connector,
    )


def require_own_paths(
    kernel: RealmKernel, draft: Draft, operations: Iterable[PlannedOperation], connector_id: str = ""
) -> None:
    """`DestinationOwned` for an operation on a key that belongs to another connector than the one given, and
    `MaintenanceStopped` for one that was removed: what it has begun to write is not its own any more."""
    if connector_id:
        _require_there(kernel, connector_id)
    elif not owned_in_realm(kernel):  # almost always: this is asked for each commit
        return
    paths = [one for one in owned_paths(kernel, draft.pointer) if one.connector_id != connector_id]
    if not paths:
        return
    for operation in operations:
        for key in (operation.key, operation.from_key):
            owner = None if key is None else next((one for one in paths if one.covers(key)), None)
            if key is not None and owner is not None:
                raise _is_owned(key, owner.connector)


def _require_there(kernel: RealmKernel, connector_id: str) -> None:
    for fresh in (False, True):
        if any(one.connector_id == connector_id for one in owned_in_realm(kernel, fresh=fresh)):
            return
    raise MaintenanceStopped("the connector was removed.", field="connector")


def require_own_merge(
    kernel: RealmKernel,
    draft: Draft,
    merged: Sequence[PlannedOperation],
    resolved: Sequence[PlannedOperation],
) -> None:
    """Other branches may take over what a connector has committed to its own; what the caller makes up is a write anywhere."""
    named = parse_reference_pointer(draft.pointer)
    paths = owned_paths(kernel, draft.pointer)
    is_destination = named is not None and any(one.branch == named.name for one in paths)
    require_own_paths(kernel, draft, merged if is_destination else resolved)


def require_movable(kernel: RealmKernel, pointer: str) -> None:
    """`DestinationOwned` for a branch that a connector commits to: to assign or delete it would write below the destination."""
    named = parse_reference_pointer(pointer)
    for one in owned_paths(kernel, pointer):
        if named is not None and named.type is ReferenceType.BRANCH and one.branch == named.name:
            raise DestinationOwned(
                f"connector {one.connector!r} commits to branch {named.name!r}: it is neither assigned nor deleted.",
                field="reference",
                remedy="Remove the connector first.",
                connector=one.connector,
            )


def require_droppable(kernel: RealmKernel, catalog_id: int) -> None:
    """The same for a whole catalog."""
    for one in owned_in_realm(kernel):
        if one.catalog_id == catalog_id:
            raise DestinationOwned(
                f"connector {one.connector!r} commits to the catalog.",
                field="catalog",
                remedy="Remove the connector first.",
                connector=one.connector,
            )


def _read(kernel: RealmKernel) -> Sequence[OwnedPath]:
    return [_owned(one.value, one.content_id.hex()) for one in head_records(kernel, CONNECTORS).all()]


def _owned(value: Value, id: str) -> OwnedPath:
    where = msgspec.convert(value["destination"], _Where)
    roots = msgspec.convert(value["spec"]["roots"], tuple[str, ...])
    return OwnedPath(str(value["name"]), id, where.catalog_id, where.branch, where.path, roots)
