"""Asks a server for what Kafka alone does not have: states at an entry, missing and oversized Changes."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import msgspec

from headwater.consumers.audit.server_history import ServerHistory
from headwater.consumers.clients.feed_http import FeedTarget, error_of, timeout, unreachable
from headwater.consumers.clients.http_poll import HttpPoll
from headwater.consumers.views.live_views import State, TableState
from headwater.schemas.change import Change
from headwater.schemas.frame import Frame
from headwater.schemas.http.feed_json import StatePage


class ViewsServer:
    def __init__(self, client: httpx.Client, target: FeedTarget) -> None:
        self._client = client
        self._target = target

    def frames(self, pointer: str, from_seq: int, to_seq: int) -> Iterator[Frame]:
        target = msgspec.structs.replace(self._target, pointers=(pointer,))
        return HttpPoll(self._client, target).frames(pointer, from_seq, to_seq)

    def change(self, pointer: str, seq: int) -> Change | None:
        found = (change for frame in self.frames(pointer, seq - 1, seq) for change in frame.changes)
        return next((change for change in found if change.seq == seq), None)

    def heads(self) -> dict[str, int]:
        history = ServerHistory(self._client, self._target)
        return {name: history.range(name)[1] for name in history.pointers()}

    def state_at(self, pointer: str, seq: int) -> State:
        """All pages of one state, pinned by the first."""
        query: dict[str, str | int] = {"pointer": pointer, "at": seq}
        state: State = {}
        while True:
            page = self._page(query)
            for one in page.entries:
                state[one.key] = TableState(content_id=one.content_id, type=one.type, value=one.value, seq=page.at.seq, time="")
            if page.next_token is None:
                return state
            query = {"token": page.next_token}

    def _page(self, query: dict[str, str | int]) -> StatePage:
        try:
            answer = self._client.get(
                self._target.url("snapshot"), params=query, headers=self._target.headers, timeout=timeout()
            )
        except httpx.TransportError as error:
            raise unreachable(self._target.server, error) from error
        if not answer.is_success:
            raise error_of(answer.status_code, answer.content, answer.headers)
        return msgspec.json.decode(answer.content, type=StatePage)
