"""The hook of observers: each request, its outcome, and each batch that landed."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Protocol, TypeAlias

from headwater.persistence.commit.commit_outcome import CommitOutcome
from headwater.persistence.commit.commit_request import CommitRequest
from headwater.schemas.errors import HeadwaterError

if TYPE_CHECKING:
    from headwater.persistence.store import Store

Answered: TypeAlias = Callable[[Future[CommitOutcome]], None]


class Observer(Protocol):
    """Its methods are called on the threads that work: they must be quick, and must not raise."""

    def opened(self, store: Store) -> None: ...

    def submitted(self, realm: str, pointer: str, request: CommitRequest) -> Answered:
        """Returns a callback that is called once, when the request has its answer."""

    def landed(self, realm: str, pointer: str, entries: int) -> None:
        """One batch of that many entries has landed by one CAS."""


def outcome_of(future: Future[CommitOutcome]) -> str:
    """`committed`, `replayed`, `nothing_to_do`, `cancelled`, the code of a refusal in lower case, or `error`."""
    if future.cancelled():
        return "cancelled"
    fault = future.exception()
    if fault is None:
        answer = future.result()
        return "replayed" if answer.replayed else "committed" if answer.logged is not None else "nothing_to_do"
    return fault.code.lower() if isinstance(fault, HeadwaterError) else "error"
