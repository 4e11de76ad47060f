"""Reads the Changes and states of a server's pointers for an audit, unchecked: checking is the auditor's job."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

import httpx
import msgspec

from headwater.consumers.audit.replay import Replayed, State
from headwater.consumers.clients.feed_http import FeedTarget, Query, error_of, timeout, unreachable
from headwater.consumers.clients.http_poll import HttpPoll
from headwater.schemas.change import Change
from headwater.schemas.errors import NotPermitted, PointerNotFound
from headwater.schemas.http.feed_json import PointerInfo, PointersPage, StatePage

PAGE_POINTERS = 1_000

T = TypeVar("T")


class ServerHistory:
    """Fixed when it is first read: later commits are left to the next audit."""

    def __init__(self, client: httpx.Client, target: FeedTarget) -> None:
        self._client = client
        self._target = target
        self._listed: dict[str, PointerInfo] = {}

    def pointers(self) -> Iterator[str]:
        return iter(self._pointers())

    def range(self, pointer: str) -> tuple[int, int]:
        listed = self._pointers().get(pointer)
        if listed is None:
            raise PointerNotFound(
                f"there is no pointer {pointer!r}.",
                field="pointer",
                remedy="List the pointers, or name a catalog and a branch.",
            )
        return listed.oldest_seq, listed.seq

    def anchor(self, pointer: str) -> None:
        """⚠ The feed does not show it: if history has expired, it is verified from its second entry on."""

    def changes(self, pointer: str, after_seq: int, to_seq: int) -> Iterator[Change]:
        if to_seq <= after_seq:
            return
        poll = HttpPoll(self._client, msgspec.structs.replace(self._target, pointers=(pointer,)))
        for received in poll.receive(str(after_seq), follow=False):
            for frame in received.frames:
                if frame.filtered:  # nobody asked for less: auditing a part would report false gaps
                    raise NotPermitted(
                        f"{pointer}: some of its Changes are withheld from this token.",
                        field="pointer",
                        remedy="Audit with a token that has feed.read over the whole catalog.",
                    )
                for change in frame.changes:
                    if change.seq > to_seq:
                        return
                    yield change

    def position(self, pointer: str, cursor: str) -> int:
        return self._get("snapshot", [("pointer", pointer), ("at", cursor), ("limit", 1)], StatePage).at.seq

    def stored_state(self, pointer: str, seq: int) -> State:
        """⚠ If the token may not see all of it, `changes` says so."""
        if seq == 0:
            return {}
        page = self._get("snapshot", [("pointer", pointer), ("at", str(seq))], StatePage)
        entries = list(page.entries)
        while page.next_token is not None:
            page = self._get("snapshot", [("token", page.next_token)], StatePage)
            entries += page.entries
        return {entry.key: Replayed(entry.content_id, entry.type, entry.value) for entry in entries}

    def _pointers(self) -> dict[str, PointerInfo]:
        token: str | None = None if self._listed else ""
        while token is not None:
            page = self._get("pointers", [("limit", PAGE_POINTERS), *([("token", token)] if token else [])], PointersPage)
            self._listed |= {info.name: info for info in page.pointers}
            token = page.next_token
        return self._listed

    def _get(self, path: str, query: Query, kind: type[T]) -> T:
        try:
            answer = self._client.get(self._target.url(path), params=query, headers=self._target.headers, timeout=timeout())
        except httpx.TransportError as error:
            raise unreachable(self._target.server, error) from error
        if not answer.is_success:
            raise error_of(answer.status_code, answer.content, answer.headers)
        return msgspec.json.decode(answer.content, type=kind)
