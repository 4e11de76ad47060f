"""Delivers an outcome from a lane's thread to a future, a blocked thread or an event loop.

A `Future` serves everybody, and costs 10 µs of a commit; what is awaited in an event loop costs 30 µs through it, for every
answer wakes the loop by itself. So the two ways that callers take most have replies of their own.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from concurrent.futures import Future
from typing import Generic, Protocol, TypeVar, cast
from weakref import WeakKeyDictionary

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)


class Reply(Protocol[T_contra]):
    """The caller that waits for one outcome. A lane asks once whether it still waits, and then gives the outcome once."""

    def is_wanted(self) -> bool:
        """False if the caller has gone. After True the request can no longer be cancelled."""

    def is_given(self) -> bool: ...

    def give(self, answer: T_contra | BaseException) -> None: ...


class FutureReply(Generic[T]):
    """For callers that need a future, with callbacks and timeouts."""

    __slots__ = ("future",)

    def __init__(self) -> None:
        self.future: Future[T] = Future()

    def is_wanted(self) -> bool:
        return self.future.set_running_or_notify_cancel()

    def is_given(self) -> bool:
        return self.future.done()

    def give(self, answer: T | BaseException) -> None:
        if isinstance(answer, BaseException):
            self.future.set_exception(answer)
        else:
            self.future.set_result(answer)


class ThreadReply(Generic[T]):
    """For a thread that only waits: one lock."""

    __slots__ = ("_answer", "_given")

    def __init__(self) -> None:
        self._answer: T | BaseException | None = None
        self._given = threading.Lock()
        self._given.acquire()

    def is_wanted(self) -> bool:
        return True

    def is_given(self) -> bool:
        return self._answer is not None

    def give(self, answer: T | BaseException) -> None:
        self._answer = answer
        self._given.release()

    def wait(self) -> T:
        self._given.acquire()
        answer = self._answer
        if isinstance(answer, BaseException):
            try:
                raise answer
            finally:
                self._answer = answer = None  # the traceback refers to this frame: together they would be a reference cycle
        return cast(T, answer)


class LoopReply(Generic[T]):
    """For a coroutine; the answer is delivered through its loop's mailbox."""

    __slots__ = ("_mailbox", "_was_given", "future")

    def __init__(self, mailbox: Mailbox) -> None:
        self.future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._mailbox = mailbox
        self._was_given = False

    def is_wanted(self) -> bool:
        return not self.future.cancelled()

    def is_given(self) -> bool:
        return self._was_given

    def give(self, answer: T | BaseException) -> None:
        self._was_given = True
        self._mailbox.post(self.future, answer)


class Mailbox:
    """Answers for one event loop: however many are posted before it looks, it is woken once."""

    def __init__(self) -> None:
        self._posted: deque[tuple[asyncio.Future[object], object]] = deque()
        self._is_woken = False

    def post(self, future: asyncio.Future[T], answer: T | BaseException) -> None:
        self._posted.append((future, answer))  # type: ignore[arg-type]
        if not self._is_woken:
            self._is_woken = True
            try:
                future.get_loop().call_soon_threadsafe(self._deliver)
            except RuntimeError:  # the loop is closed: no caller waits any more
                self._posted.clear()

    def _deliver(self) -> None:
        # ⚠ Reset the flag before emptying the queue: what is posted from now on wakes the loop again, so that nothing is left.
        self._is_woken = False
        while self._posted:
            future, answer = self._posted.popleft()
            if future.done():  # cancelled meanwhile
                continue
            if isinstance(answer, StopIteration):  # which no future takes
                answer = RuntimeError(f"a request raised {answer!r}")
            if isinstance(answer, BaseException):
                future.set_exception(answer)
            else:
                future.set_result(answer)


class Mailboxes:
    """One for each event loop, as long as the loop lives."""

    def __init__(self) -> None:
        self._by_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, Mailbox] = WeakKeyDictionary()

    def of_running_loop(self) -> Mailbox:
        return self._by_loop.setdefault(asyncio.get_running_loop(), Mailbox())
