"""Messages between workers: sent from threads and event loops, together where they come together, and none left lying."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator

import pytest

from headwater.persistence.handover.connection import Connection
from headwater.persistence.handover.messages import Declined, Message, Ping, take_frames

BIG = 2_000_000
"""Messages that a socket's buffers do not take at once."""


class Ends:
    def __init__(self) -> None:
        ours, self.theirs = socket.socketpair()
        self.woken = 0
        self.connection = Connection(ours, self._wake)
        self.theirs.settimeout(20)
        self.frames: list[list[Message]] = []

    def _wake(self) -> None:
        self.woken += 1

    def read(self, count: int, *, flush: bool = False) -> list[Message]:
        """With `flush`, what could not be sent is tried again, as the thread does that watches the socket."""
        received = bytearray()
        while sum(map(len, self.frames)) < count:
            received += self.theirs.recv(1 << 20)
            self.frames += take_frames(received)
            if flush:
                self.connection.flush()
        return [message for messages in self.frames for message in messages]


@pytest.fixture
def ends() -> Iterator[Ends]:
    made = Ends()
    yield made
    made.connection.close()
    made.theirs.close()


def test_what_an_event_loop_posts_together_is_one_frame(ends: Ends) -> None:
    async def post() -> None:
        for number in range(3):
            ends.connection.post(Declined(number))
            ends.connection.flush_soon()

    asyncio.run(post())
    assert ends.read(3) == [Declined(0), Declined(1), Declined(2)] and len(ends.frames) == 1


def test_a_message_is_sent_although_another_thread_sent_the_one_before_it(ends: Ends) -> None:
    async def post() -> None:
        ends.connection.post(Ping())
        ends.connection.flush()  # another thread, between the two steps of this one
        ends.connection.flush_soon()
        await asyncio.sleep(0)
        ends.connection.post(Declined(1))
        ends.connection.flush_soon()

    asyncio.run(post())
    assert ends.read(2) == [Ping(), Declined(1)]


def test_what_does_not_fit_is_sent_later_in_order(ends: Ends) -> None:
    for number in range(BIG // 10):
        ends.connection.post(Declined(number))
    ends.connection.flush()
    ends.connection.post(Ping())
    ends.connection.flush()
    assert ends.woken and ends.connection.unsent_bytes
    assert ends.read(BIG // 10 + 1, flush=True) == [*(Declined(number) for number in range(BIG // 10)), Ping()]
    assert not ends.connection.unsent_bytes


def test_a_lost_connection_accepts_messages_without_an_error(ends: Ends) -> None:
    ends.theirs.close()
    for _ in range(3):
        ends.connection.post(Ping())
        ends.connection.flush()
    assert ends.connection.is_lost
    with pytest.raises(OSError):
        while True:
            ends.connection.receive()
