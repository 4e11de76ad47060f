"""A store over a database that cannot delete by realm, and realms in it that are to be purged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec

from headwater.persistence.backend import Backend
from headwater.persistence.rows import Split, Table
from headwater.persistence.store import Store
from tests.support.models.realm_cases import realms_of, write_note


class ScanOnly:
    """A database that deletes single rows only, and counts how often each of its tables is scanned from end to end."""

    def __init__(self, inner: Backend) -> None:
        self._inner = inner
        self.abilities = msgspec.structs.replace(inner.abilities, can_delete_realms=False)
        self.scans: Counter[Table] = Counter()
        self.before_scan: Callable[[Table], None] = lambda _: None

    def __getattr__(self, attribute: str) -> Any:
        assert attribute != "delete_realms"
        return getattr(self._inner, attribute)

    def splits(self, table: Table, count: int) -> list[Split]:
        self.scans[table] += 1
        self.before_scan(table)
        return self._inner.splits(table, count)


def as_scan_only(store: Store) -> ScanOnly:
    assert isinstance(store.backend, ScanOnly)
    return store.backend


def purging(store: Store, *names: str) -> dict[str, str]:
    """Realms with rows that are to go, by name."""
    realms, instances = realms_of(store), {}
    for name in names:
        instances[name] = realms.create(name).instance
        realms.init(name)
        write_note(store.kernel(instances[name]), "principals", "key")
        realms.deactivate(name)
        realms.purge(name)
    return instances
