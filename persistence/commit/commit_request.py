"""What a caller asks a lane to commit, and how it waits there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

import msgspec

from headwater.persistence.commit.commit_outcome import CommitOutcome
from headwater.persistence.commit.draft import Draft, Plan
from headwater.persistence.commit.landed_elsewhere import HandedOver
from headwater.persistence.commit.replies import Reply
from headwater.schemas.change import Kind


class CommitRequest(Protocol):
    """What a lane applies. `plan` is called once for each attempt, always with the state that it would commit onto."""

    @property
    def request_id(self) -> str: ...

    @property
    def request_id_is_callers(self) -> bool:
        """Whether the caller supplied the id, so that the same request may have come before."""

    @property
    def fingerprint(self) -> bytes:
        """A digest of all that the request asks for, empty if its caller answers for that: an id that comes again with
        another one is refused."""

    @property
    def kind(self) -> Kind:
        """What the request wants to be in the log, for observers."""

    @property
    def keys_to_read(self) -> Iterable[bytes]:
        """The encoded keys that `plan` will look up, as far as they are known beforehand: a lane reads those of all waiting
        requests together."""

    def plan(self, draft: Draft) -> Plan | Iterator[Plan] | None:
        """What to append; None for nothing to do; raises what the head refuses. An iterator gives several entries, all or
        none, and sees the draft move on to each before it is asked for the next."""


class PendingRequest(msgspec.Struct):
    request: CommitRequest
    reply: Reply[CommitOutcome]
    since: int
    """Microseconds."""
    handed_over: HandedOver | None = None
    """Of a request that another process may land, or have landed."""
