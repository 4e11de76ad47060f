"""A request id that a caller supplied, kept as a row beside the entries it became: found by one read, however far back.

The row is written with the entry, before the CAS. Where the database has no transactions a lost attempt leaves its row behind,
so a row counts only if its entry is in the pointer's log; each attempt has a row of its own, so that none replaces another's.
⚠ `created_at` of such a row is when its time is over: a sweep takes it for new until then, and nothing reaches it afterwards.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator

import msgspec

from headwater.persistence.backend import Backend
from headwater.persistence.objects import codec
from headwater.persistence.objects.object_types import OBJECT_TYPES, Life, ObjectType
from headwater.persistence.rows import ObjectRow

KEPT_SECONDS = 7 * 86_400.0
"""How long a request id is found, at least."""

_LOWEST_ID = 2**62
"""Ids of other objects are lower: their time reaches this in the year 2059."""


class RequestKey(msgspec.Struct, frozen=True):
    """An id under which a request is done once, and a digest of all that it asks for: with another one the id is refused."""

    id: str
    fingerprint: bytes = b""


class CommittedRequest(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a request became. Append new fields, never move one."""

    pointer: str
    request_id: str
    fingerprint: bytes
    """A digest of the whole request; empty if its caller gave none."""
    entry_id: bytes
    seq: int
    commit: bytes
    token: bytes = b""
    """The token of the hand-over to another worker, if any: distinguishes this request from another with the same id."""
    is_unproven: bool = False
    """It came from a store where a lost attempt leaves its row behind: once its entry is gone, the row proves nothing."""


COMMITTED_REQUEST = OBJECT_TYPES.register(ObjectType("request", CommittedRequest, Life.TIMED))


def request_row(request: CommittedRequest, expires_at: int) -> ObjectRow:
    encoded = codec.encode(COMMITTED_REQUEST, _object_id(request.pointer, request.request_id), request, expires_at)
    return msgspec.structs.replace(encoded, part=1 + (int.from_bytes(request.entry_id[-4:]) >> 2))


def find_committed(backend: Backend, realm: str, pointer: str, request_ids: Iterable[str]) -> Iterator[CommittedRequest]:
    """All attempts of these requests, by one bulk read. ⚠ Some may have been lost."""
    wanted = {_object_id(pointer, request_id): request_id for request_id in request_ids}
    for rows in backend.fetch_objects(realm, list(wanted)).values():
        for row in rows:
            found = read_request_row(row)
            if (found.pointer, found.request_id) == (pointer, wanted[row.id]):
                yield found


def read_request_row(row: ObjectRow) -> CommittedRequest:
    """`ChecksumMismatch` or its like if it is damaged."""
    return codec.decode(COMMITTED_REQUEST, [msgspec.structs.replace(row, part=0)])


def _object_id(pointer: str, request_id: str) -> int:
    digest = hashlib.sha256(f"{len(pointer)}:{pointer}{request_id}".encode("utf-8", "surrogatepass")).digest()
    return _LOWEST_ID | int.from_bytes(digest[:8]) >> 2
