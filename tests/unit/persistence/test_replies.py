"""Answers given on another thread arrive where their callers wait."""

from __future__ import annotations

import asyncio
import threading

import pytest

from headwater.persistence.commit.replies import LoopReply, Mailbox, Mailboxes, ThreadReply


def test_a_blocked_thread_gets_its_answer_or_its_error() -> None:
    answered: ThreadReply[str] = ThreadReply()
    refused: ThreadReply[str] = ThreadReply()

    def answer() -> None:
        answered.give("done")
        refused.give(ValueError("no"))

    lane = threading.Thread(target=answer)
    lane.start()
    assert answered.wait() == "done"
    with pytest.raises(ValueError, match="no"):
        refused.wait()
    lane.join()
    assert answered.is_wanted() and answered.is_given()


def test_many_answers_reach_an_event_loop_by_few_wake_ups() -> None:
    async def main() -> tuple[list[int], int]:
        wakes, loop = [0], asyncio.get_running_loop()
        mailbox = Mailbox()
        deliver = mailbox._deliver

        def counted() -> None:
            wakes[0] += 1
            deliver()

        mailbox._deliver = counted  # type: ignore[method-assign]
        replies: list[LoopReply[int]] = [LoopReply(mailbox) for _ in range(100)]
        for number, reply in enumerate(replies):  # on the loop's own thread: it cannot look before all are posted
            reply.give(number)
        assert loop.is_running()
        return list(await asyncio.gather(*(reply.future for reply in replies))), wakes[0]

    answers, wakes = asyncio.run(main())
    assert answers == list(range(100))
    assert wakes == 1


def test_no_answer_is_left_lying_when_threads_post_while_the_loop_delivers() -> None:
    async def main() -> int:
        mailbox = Mailbox()
        replies: list[LoopReply[int]] = [LoopReply(mailbox) for _ in range(8_000)]
        parts = [replies[first::4] for first in range(4)]
        lanes = [threading.Thread(target=lambda part=part: [reply.give(1) for reply in part]) for part in parts]
        for lane in lanes:
            lane.start()
        async with asyncio.timeout(30):
            total = sum(await asyncio.gather(*(reply.future for reply in replies)))
        for lane in lanes:
            lane.join()
        return total

    assert asyncio.run(main()) == 8_000


def test_a_future_that_refuses_its_result_does_not_keep_others_from_theirs() -> None:
    async def main() -> None:
        mailbox = Mailbox()
        odd: LoopReply[int] = LoopReply(mailbox)
        cancelled: LoopReply[int] = LoopReply(mailbox)
        fine: LoopReply[int] = LoopReply(mailbox)
        cancelled.future.cancel()
        assert not cancelled.is_wanted()
        odd.give(StopIteration())
        cancelled.give(1)
        fine.give(2)
        assert await fine.future == 2
        with pytest.raises(RuntimeError, match="StopIteration"):
            await odd.future

    asyncio.run(main())


def test_answers_for_a_loop_that_is_closed_are_dropped() -> None:
    async def main() -> LoopReply[int]:
        return LoopReply(Mailboxes().of_running_loop())

    asyncio.run(main()).give(1)


def test_a_loop_keeps_its_mailbox_and_a_mailbox_keeps_no_loop() -> None:
    mailboxes = Mailboxes()

    async def main() -> tuple[Mailbox, Mailbox]:
        return mailboxes.of_running_loop(), mailboxes.of_running_loop()

    one, other = asyncio.run(main())
    assert one is other
    another, _ = asyncio.run(main())
    assert another is not one
