"""What every transport carries: Changes and the range (from, to] they cover, so that gaps show and idle readers advance."""

from __future__ import annotations

import msgspec

from headwater.schemas.change import Change


class Frame(msgspec.Struct, frozen=True, kw_only=True):
    """A page, an SSE event, a batch of Kafka records: everything of one pointer after `from_seq`, up to `to_seq`, except
    what a filter hides. Without Changes it is a bookmark."""

    pointer: str
    from_seq: int
    to_seq: int
    changes: tuple[Change, ...] = ()
    filtered: bool = False
    """Whether Changes of the range may be missing because a filter hides them."""
