"""Reports each read of a realm to observers: how long it took, how many rows it found, and how it failed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Protocol, TypeAlias, runtime_checkable

from headwater.persistence.backend import Backend
from headwater.persistence.objects.cache import ObjectCache
from headwater.persistence.objects.object_types import ObjectTypes
from headwater.persistence.objects.realm_objects import Decoded, RealmObjects
from headwater.persistence.rows import ObjectRow, realm_name_of

Found: TypeAlias = Callable[[int], None]
"""Called with the number of rows or entries that were found."""
Reading: TypeAlias = Callable[[str], AbstractContextManager[Found]]
"""Around one read: `pointer`, `objects` or `page`."""


@runtime_checkable
class ReadObserver(Protocol):
    """An observer that wants to hear of reads too. Called on the threads that work: it must be quick, and must not raise."""

    def reading(self, realm: str, read: str) -> AbstractContextManager[Found]: ...


def unobserved(read: str) -> AbstractContextManager[Found]:
    return _UNOBSERVED


def observed(realm: str, observers: Sequence[object]) -> Reading:
    """The observers of the realm instance that want to see reads."""
    wanting = [observer for observer in observers if isinstance(observer, ReadObserver)]
    if not wanting:
        return unobserved
    name = realm_name_of(realm)

    @contextmanager
    def reading(read: str) -> Iterator[Found]:
        with ExitStack() as stack:
            callbacks = [stack.enter_context(observer.reading(name, read)) for observer in wanting]

            def found(rows: int) -> None:
                for callback in callbacks:
                    callback(rows)

            yield found

    return reading


class ObservedObjects(RealmObjects):
    """Wraps the realm's objects only if an observer wants reads. Cache hits are not reads."""

    def __init__(self, backend: Backend, realm: str, cache: ObjectCache[Decoded], types: ObjectTypes, reading: Reading) -> None:
        super().__init__(backend, realm, cache, types)
        self._reading = reading

    def _rows(self, ids: Sequence[int], missing_ok: bool) -> dict[int, list[ObjectRow]]:
        if not ids:
            return {}
        with self._reading("objects") as found:
            rows = super()._rows(ids, missing_ok)
            found(len(rows))
            return rows


def _ignore(found: int) -> None: ...


_UNOBSERVED = nullcontext(_ignore)
