"""Reads the Changes of a server's pointers for an audit, unchecked: checking is the auditor's job."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import msgspec

from headwater.consumers.clients.feed_http import FeedTarget, error_of, timeout, unreachable
from headwater.consumers.clients.http_poll import HttpPoll
from headwater.schemas.change import Change
from headwater.schemas.errors import HeadwaterError, NotPermitted
from headwater.schemas.http.feed_json import PointerInfo, PointersPage

PAGE_POINTERS = 1_000


class ServerHistory:
    def __init__(self, client: httpx.Client, target: FeedTarget) -> None:
        self._client = client
        self._target = target

    def pointers(self) -> Iterator[PointerInfo]:
        token: str | None = None
        while True:
            query: dict[str, str | int] = {"limit": PAGE_POINTERS} | ({"token": token} if token else {})
            page = self._get("pointers", query)
            yield from page.pointers
            token = page.next_token
            if token is None:
                return

    def changes(self, pointer: PointerInfo) -> Iterator[Change]:
        """From the oldest to what was the newest when the pointer was listed."""
        poll = HttpPoll(self._client, msgspec.structs.replace(self._target, pointers=(pointer.name,)))
        for received in poll.receive(str(pointer.oldest_seq - 1), follow=False):
            for frame in received.frames:
                if frame.filtered:  # nobody asked for less: an audit of a part would find gaps that are none
                    raise NotPermitted(
                        f"{pointer.name}: some of its Changes are withheld from this token.",
                        field="pointer",
                        remedy="Audit with a token that has feed.read over the whole catalog.",
                    )
                for change in frame.changes:
                    if change.seq <= pointer.seq:
                        yield change

    def _get(self, path: str, query: dict[str, str | int]) -> PointersPage:
        try:
            answer = self._client.get(self._target.url(path), params=query, headers=self._target.headers, timeout=timeout())
        except httpx.TransportError as error:
            raise unreachable(self._target.server, error) from error
        if not answer.is_success:
            raise self._refused(answer)
        return msgspec.json.decode(answer.content, type=PointersPage)

    @staticmethod
    def _refused(answer: httpx.Response) -> HeadwaterError:
        return error_of(answer.status_code, answer.content, answer.headers)
