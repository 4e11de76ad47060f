"""The logs of a server's pointers: those of a realm, or those of `::system::`."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import msgspec

from headwater.client.server_calls import ServerCalls
from headwater.consumers.clients.feed_http import Query
from headwater.consumers.clients.http_poll import HttpPoll
from headwater.consumers.clients.reader import Reader
from headwater.consumers.clients.sse import HttpStream
from headwater.schemas.change import Change, Kind
from headwater.schemas.filters import NO_FILTER, Filter
from headwater.schemas.http.feed_json import PointerInfo, ReferenceLogAnswer

PAGE_CHANGES = 1_000


class RemoteLogs:
    """The pointers that the caller may see."""

    def __init__(self, calls: ServerCalls) -> None:
        self.calls = calls

    def pointers(self, prefix: str = "") -> Iterator[PointerInfo]:
        return self.calls.all_pointers(prefix)

    def changes(
        self, pointer: str, after: str | int = "earliest", *, follow: bool = False, filter: Filter = NO_FILTER
    ) -> Iterator[Change]:
        return self.reader([pointer], after, filter=filter).changes(follow=follow)

    def reader(
        self, pointers: Sequence[str], after: str | int = "earliest", *, filter: Filter = NO_FILTER, stream: bool = False
    ) -> Reader:
        """Changes of several pointers, merged by time, with a cursor to keep; over long polls, or over a stream of events."""
        target = msgspec.structs.replace(self.calls.target, pointers=tuple(pointers), filter=filter)
        poll = HttpPoll(self.calls.client, target)
        return Reader(HttpStream(self.calls.client, target) if stream else poll, str(after), log=poll)


def read_reference_log(calls: ServerCalls, catalog: str, kinds: Collection[Kind]) -> Iterator[Change]:
    """Page by page, newest first."""
    query: Query = [("catalog", catalog), ("limit", PAGE_CHANGES), *(("kind", str(kind)) for kind in kinds)]
    page = calls.get("reference-log", query, ReferenceLogAnswer)
    yield from page.changes
    while page.next_token is not None:
        page = calls.get("reference-log", [*query, ("token", page.next_token)], ReferenceLogAnswer)
        yield from page.changes
