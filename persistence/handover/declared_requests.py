"""Which requests can be handed over to another worker, and how each becomes plain data and a request again.

A type of request that is not registered is committed by the worker that made it. The state that a request reads through is no
part of the data: it is built over the kernel of the worker that takes it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import msgspec

from headwater.persistence.commit.commit_request import CommitRequest
from headwater.schemas.errors import DuplicateRegistration

if TYPE_CHECKING:
    from headwater.persistence.store import RealmKernel

R = TypeVar("R", bound=CommitRequest)
D = TypeVar("D", bound=msgspec.Struct)
S = TypeVar("S", bound=msgspec.Struct)


class Report(NamedTuple, Generic[R, S]):
    """What a request has seen when it was planned last, for callers that look at the request and not only at its outcome."""

    type: type[S]
    seen: Callable[[R], S]
    take: Callable[[R, S], None]


class DeclaredRequest(NamedTuple, Generic[R, D]):
    name: str
    declaration: type[D]
    declare: Callable[[R], D]
    build: Callable[[RealmKernel, D], R]
    report: Report[R, Any] | None = None


class DeclaredRequests:
    def __init__(self) -> None:
        self._by_type: dict[type, tuple[DeclaredRequest[Any, Any], msgspec.msgpack.Decoder[Any]]] = {}
        self._by_name: dict[str, tuple[DeclaredRequest[Any, Any], msgspec.msgpack.Decoder[Any]]] = {}

    def register(self, type: type[R], declared: DeclaredRequest[R, Any]) -> None:
        """⚠ For exactly this type: a subclass may see or remember more than its base declares."""
        if type in self._by_type or declared.name in self._by_name:
            raise DuplicateRegistration(f"{declared.name!r} is declared twice.", field="name")
        self._by_type[type] = self._by_name[declared.name] = (declared, msgspec.msgpack.Decoder(declared.declaration))

    def of(self, request: CommitRequest) -> DeclaredRequest[Any, Any] | None:
        found = self._by_type.get(type(request))
        return None if found is None else found[0]

    def build(self, name: str, body: bytes | msgspec.Raw, kernel: RealmKernel) -> CommitRequest:
        declared, decoder = self._by_name[name]
        request: CommitRequest = declared.build(kernel, decoder.decode(body))
        return request


DECLARED_REQUESTS = DeclaredRequests()
