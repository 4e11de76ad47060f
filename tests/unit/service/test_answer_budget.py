"""The budget of large answers: what of them is in memory, and readers that do not take them."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from headwater.schemas.errors import NotServing, TooManyRequests
from headwater.service.gate import answers
from headwater.service.gate.answers import PIECE_BYTES, send_in_pieces
from headwater.service.gate.budgets import BODIES_OF_CALLER, BODIES_OF_WORKER, Budgets
from headwater.service.http.hang_up import hang_up

UNIT = 1_000
OF_CALLER, OF_WORKER = BODIES_OF_CALLER * UNIT, BODIES_OF_WORKER * UNIT


def test_a_caller_gets_answers_while_there_is_room_before_them() -> None:
    budgets = Budgets(UNIT)
    budgets.take_answer("ann", 10 * OF_CALLER, is_done=False)
    with pytest.raises(TooManyRequests):
        budgets.take_answer("ann", 1, is_done=False)
    budgets.give_answer_back("ann", 10 * OF_CALLER)
    budgets.take_answer("ann", 1, is_done=False)
    assert (budgets.answer_bytes, budgets.refused) == (1, 1)


def test_the_result_of_a_mutation_is_sent_even_when_the_budget_is_full() -> None:
    budgets = Budgets(UNIT)
    budgets.take_answer("ann", OF_WORKER, is_done=False)
    budgets.take_answer("ann", UNIT, is_done=True)
    assert budgets.answer_bytes == OF_WORKER + UNIT


def test_answers_and_bodies_of_all_share_one_memory() -> None:
    budgets = Budgets(UNIT)
    for number in range(BODIES_OF_WORKER // BODIES_OF_CALLER):
        budgets.take_answer(number, OF_CALLER, is_done=False)
    with pytest.raises(NotServing):
        budgets.take_answer("ann", 1, is_done=False)
    with pytest.raises(NotServing):
        budgets.take_bytes("ann", 1)
    budgets.give_answer_back(0, OF_CALLER)
    budgets.take_bytes("ann", OF_CALLER)
    with pytest.raises(NotServing):
        budgets.take_answer("ben", 1, is_done=False)


def test_a_connection_is_hung_up_by_its_clients_address_and_no_other() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = server.getsockname()
        with socket.create_connection(address, 30) as one, socket.create_connection(address, 30) as other:
            with server.accept()[0] as for_one, server.accept()[0] as for_other:
                host, port = one.getsockname()
                assert hang_up({"client": (host, str(port))})
                assert one.recv(1) == b""
                for_other.sendall(b"x")
                assert other.recv(1) == b"x"
                assert for_one.fileno() >= 0, "closing it is for who opened it"
            assert not hang_up({"client": (host, str(port))}) and not hang_up({})


class Reader:
    def __init__(self, takes: int) -> None:
        self._takes = takes
        self.body = b""
        self.ended = False

    async def send(self, message: Any) -> None:
        if not self._takes:
            await asyncio.Event().wait()
        self._takes -= 1
        self.body += message["body"]
        self.ended = not message["more_body"]


@pytest.mark.parametrize("size", [PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES * 3 + 1])
def test_an_answer_in_pieces_is_the_same_answer(size: int) -> None:
    body, reader = bytes(number % 251 for number in range(size)), Reader(100)
    assert asyncio.run(send_in_pieces(reader.send, body, 30.0))
    assert reader.body == body and reader.ended


def test_the_end_of_an_unread_answer_is_never_sent() -> None:
    reader = Reader(2)
    assert not asyncio.run(send_in_pieces(reader.send, bytes(PIECE_BYTES * 5), 0.01))
    assert len(reader.body) == 2 * PIECE_BYTES and not reader.ended


class SlowReader(Reader):
    """Takes a piece each time just before it would be given up."""

    async def send(self, message: Any) -> None:
        await asyncio.sleep(0.01)
        await super().send(message)


def test_a_reader_that_reads_too_little_is_disconnected_just_inside_the_stall_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "READ_BYTES_A_SECOND_MIN", 1e12)  # all of it within the time of one stall
    reader = SlowReader(1_000_000)
    assert not asyncio.run(send_in_pieces(reader.send, bytes(PIECE_BYTES * 1_000), 0.5))
    assert 0 < len(reader.body) < PIECE_BYTES * 1_000 and not reader.ended
