"""Loads what the requests of a batch will look up into the cache, before they are planned.

A plan reads what its keys hold, one after the other. Where the cache does not have it, 64 waiting requests would ask the
database 64 times before the one CAS that commits them all; so the keys that they declare (`keys_to_read`) are looked up
together, by two bulk reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from headwater.persistence.commit.draft import Draft
from headwater.persistence.objects.realm_objects import RealmObjects
from headwater.schemas.errors import HeadwaterError, OutcomeUnknown, StoreUnavailable


class RequestWithKeys(Protocol):
    @property
    def keys_to_read(self) -> Iterable[bytes]: ...


class Prefetch:
    """The prefetching of one lane. Skipped if nothing had to be read since it ran last."""

    def __init__(self, objects: RealmObjects) -> None:
        self._objects = objects
        self._read_before = -1

    def prepare(self, requests: Sequence[RequestWithKeys], draft: Draft) -> None:
        """⚠ A damaged object fails only the request that needs it, when it is planned. An unavailable store is raised here."""
        was_cold = self._objects.objects_read != self._read_before
        if was_cold and self._objects.caches:
            keys = {key for request in requests for key in request.keys_to_read}
            try:
                draft.look_up(keys)
            except (StoreUnavailable, OutcomeUnknown):
                raise
            except HeadwaterError:
                pass
        self._read_before = self._objects.objects_read
