"""Reads Changes after the positions that the server keeps under a name, and acknowledges them.

Two readers on one name: both may read the same page; the second to acknowledge gets `SubscriptionMoved`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from urllib.parse import quote

import msgspec

from headwater.client.server_calls import ServerCalls
from headwater.consumers.clients.chain import Chain
from headwater.schemas.change import Change
from headwater.schemas.filters import NO_FILTER, Filter
from headwater.schemas.frame import Frame
from headwater.schemas.http.feed_json import (
    Acknowledgement,
    FilterBody,
    Rewind,
    SubscriptionBody,
    SubscriptionInfo,
    SubscriptionPage,
)

PAGE_CHANGES = 100
WAIT_SECONDS = 20.0


class RemoteSubscription:
    def __init__(self, calls: ServerCalls, name: str) -> None:
        self.name = name
        self._calls = calls
        self._path = f"subscriptions/{quote(name, safe='')}"

    def create(
        self,
        pointers: Sequence[str],
        after: str | int = "latest",
        *,
        filter: Filter = NO_FILTER,
        pin_seconds: int | None = None,
    ) -> SubscriptionInfo:
        """Or the existing one, if the request is for the same."""
        wanted = msgspec.convert(filter, FilterBody, from_attributes=True)
        body = SubscriptionBody(pointers=list(pointers), after=str(after), filter=wanted)
        if pin_seconds is not None:
            body = msgspec.structs.replace(body, pin_seconds=pin_seconds)
        return self._write("PUT", "", body)

    def info(self) -> SubscriptionInfo:
        return self._calls.call("GET", self._path, SubscriptionInfo)

    def rewind(self, after: str | int, pointers: Sequence[str] = ()) -> SubscriptionInfo:
        """Reset positions, back or forth."""
        return self._write("POST", "/rewind", Rewind(version=self.info().version, after=str(after), pointers=list(pointers)))

    def delete(self) -> None:
        self._calls.call("DELETE", self._path, type(None))

    def page(self, *, wait_seconds: float = 0.0, limit: int = PAGE_CHANGES) -> SubscriptionPage:
        """What comes next. Reading does not move the position."""
        query: list[tuple[str, str | int | float | bool | None]] = [("limit", limit), ("wait", wait_seconds)]
        return self._calls.get(f"{self._path}/changes", query, SubscriptionPage, wait_seconds)

    def acknowledge(self, page: SubscriptionPage) -> SubscriptionInfo | None:
        """Move past the page; None if that moves nothing."""
        if not page.acknowledge.positions:
            return None
        return self._write("POST", "/acknowledge", page.acknowledge)

    def changes(self, *, follow: bool = True, limit: int | None = None) -> Iterator[Change]:
        """Each page is acknowledged when the Change after its last one is requested: if a reader dies, what was returned but
        not finished comes again. Ends after `limit` Changes, all acknowledged; a loop that is left early does not acknowledge
        its last page."""
        chains: dict[str, Chain] = {}
        is_filtered = self.info().filter != FilterBody()
        left = limit
        while left is None or left > 0:
            size = PAGE_CHANGES if left is None else min(PAGE_CHANGES, left)
            page = self.page(wait_seconds=WAIT_SECONDS if follow else 0.0, limit=size)
            new = _checked(page, chains, is_filtered or page.withheld)
            yield from new
            moved = self.acknowledge(page)
            left = left if left is None else left - len(new)
            if not follow and moved is None:
                return

    def _write(self, method: str, path: str, body: SubscriptionBody | Rewind | Acknowledgement) -> SubscriptionInfo:
        headers = {"content-type": "application/json"}
        content = msgspec.json.encode(body)
        return self._calls.call(method, self._path + path, SubscriptionInfo, headers=headers, content=content)


def _checked(page: SubscriptionPage, chains: dict[str, Chain], is_filtered: bool) -> list[Change]:
    new: list[Change] = []
    for pointer, range_ in page.ranges.items():
        chain = chains.setdefault(pointer, Chain(pointer, range_.from_))
        held = tuple(change for change in page.changes if change.pointer == pointer)
        new += chain.accept(Frame(pointer=pointer, from_seq=range_.from_, to_seq=range_.to, changes=held, filtered=is_filtered))
    return sorted(new, key=lambda change: (change.time, change.pointer))
