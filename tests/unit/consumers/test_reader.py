"""A reader gives each Change once and in order, whatever its transport does, and a cursor that neither skips nor doubles."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from itertools import islice

import pytest

from headwater.consumers.backoff import BEHIND_TRIES_MAX, Backoff
from headwater.consumers.clients.reader import TRIES_MAX, AsyncReader, Reader
from headwater.consumers.clients.transport import Received
from headwater.schemas.change import Change
from headwater.schemas.cursor import Cursor, Position, decode_cursor, encode_cursor
from headwater.schemas.errors import (
    ChainBroken,
    CursorAhead,
    CursorExpired,
    CursorReset,
    FeedUnreachable,
    HeadwaterError,
)
from headwater.schemas.frame import Frame
from tests.support.models.feed_histories import POINTER, history, seqs

LOG = history(12)
REALM = "r#1"


def token(seq: int) -> str:
    entry_id = bytes.fromhex(LOG[seq - 1].entry_id) if seq else b""
    return encode_cursor(Cursor(REALM, {POINTER: Position(seq, entry_id)}))


def page(from_seq: int, to_seq: int) -> Received:
    frame = Frame(pointer=POINTER, from_seq=from_seq, to_seq=to_seq, changes=tuple(LOG[from_seq:to_seq]))
    return Received(frames=(frame,), cursor=token(to_seq), heads={POINTER: len(LOG)})


def seq_of(after: str) -> int:
    return 0 if after == "earliest" else decode_cursor(after).positions[POINTER].seq


class Scripted:
    """A transport that serves pages of three, and does what the script says at the n-th answer."""

    def __init__(self, faults: dict[int, HeadwaterError | Callable[[int], Received]] | None = None) -> None:
        self.faults = faults or {}
        self.asked: list[str] = []
        self.answers = 0

    def receive(self, after: str, *, follow: bool) -> Iterator[Received]:
        self.asked.append(after)
        seq = seq_of(after)
        while True:
            self.answers += 1
            fault = self.faults.pop(self.answers, None)
            if isinstance(fault, HeadwaterError):
                raise fault
            received = fault(seq) if fault else page(seq, min(seq + 3, len(LOG)))
            yield received
            seq = seq_of(received.cursor)
            if seq >= len(LOG):
                return

    def frames(self, pointer: str, from_seq: int, to_seq: int) -> Iterator[Frame]:
        for seq in range(from_seq, to_seq):
            yield page(seq, seq + 1).frames[0]


class ScriptedAsync:
    def __init__(self, inner: Scripted) -> None:
        self.inner = inner

    async def receive(self, after: str, *, follow: bool) -> AsyncIterator[Received]:
        for received in self.inner.receive(after, follow=follow):
            yield received

    async def frames(self, pointer: str, from_seq: int, to_seq: int) -> AsyncIterator[Frame]:
        for frame in self.inner.frames(pointer, from_seq, to_seq):
            yield frame


def read_all(transport: Scripted, *, use_async: bool, with_log: bool = True, slept: list[float] | None = None) -> list[Change]:
    pauses = slept if slept is not None else []
    if not use_async:
        reader = Reader(transport, log=transport if with_log else None, sleep=pauses.append)
        return list(islice(reader.changes(follow=True), len(LOG)))

    async def read() -> list[Change]:
        async def sleep(seconds: float) -> None:
            pauses.append(seconds)

        wrapped = ScriptedAsync(transport)
        changes = AsyncReader(wrapped, log=wrapped if with_log else None, sleep=sleep).changes(follow=True)
        found = []
        async for change in changes:
            found.append(change)
            if len(found) == len(LOG):
                break
        await changes.aclose()  # type: ignore[attr-defined]
        return found

    return asyncio.run(read())


both = pytest.mark.parametrize("use_async", [False, True], ids=["sync", "async"])


@both
def test_a_broken_connection_resumes_where_it_was(use_async: bool) -> None:
    transport, slept = Scripted({2: FeedUnreachable("cut"), 4: FeedUnreachable("cut")}), list[float]()
    assert read_all(transport, use_async=use_async, slept=slept) == LOG
    assert transport.faults == {} and len(slept) == 2
    assert [seq_of(after) for after in transport.asked] == [0, 3, 6]


@both
def test_repeated_answers_are_given_once(use_async: bool) -> None:
    transport = Scripted({2: lambda seq: page(0, 6), 3: lambda seq: page(2, 6)})
    assert read_all(transport, use_async=use_async) == LOG
    assert transport.faults == {}


@both
def test_a_gap_is_repaired_from_the_log(use_async: bool) -> None:
    transport = Scripted({2: lambda seq: page(7, 9)})
    assert read_all(transport, use_async=use_async) == LOG
    assert transport.faults == {}


@both
def test_a_gap_without_a_log_is_an_error_and_never_passed_over(use_async: bool) -> None:
    with pytest.raises(ChainBroken, match="entries 4 to 7 are missing"):
        read_all(Scripted({2: lambda seq: page(7, 9)}), use_async=use_async, with_log=False)


@both
@pytest.mark.parametrize("error", [CursorExpired("gone"), CursorReset("other")])
def test_an_unusable_cursor_is_raised_and_not_retried(error: HeadwaterError, use_async: bool) -> None:
    transport = Scripted({2: error})
    with pytest.raises(type(error)):
        read_all(transport, use_async=use_async)
    assert len(transport.asked) == 1


@both
def test_a_server_that_stays_behind_the_cursor_is_an_error(use_async: bool) -> None:
    transport = Scripted({number: CursorAhead("restored from a backup") for number in range(1, 100)})
    with pytest.raises(CursorAhead):
        read_all(transport, use_async=use_async)
    assert len(transport.asked) == BEHIND_TRIES_MAX


def test_a_reader_that_does_not_follow_gives_up_a_server_that_does_not_answer() -> None:
    transport = Scripted({number: FeedUnreachable("gone") for number in range(1, 100)})
    with pytest.raises(FeedUnreachable):
        list(Reader(transport, sleep=lambda _: None).changes(follow=False))
    assert len(transport.asked) == TRIES_MAX


@pytest.mark.parametrize("stop_behind", range(1, len(LOG)))
def test_a_reader_that_dies_after_any_change_continues_without_skip_or_duplicate(stop_behind: int) -> None:
    reader = Reader(Scripted())
    first = list(islice(reader.changes(), stop_behind))
    kept = reader.cursor
    rest = list(Reader(Scripted(), kept).changes(follow=False))
    assert first + rest == LOG


class Growing(Scripted):
    """Commits one more entry before each question, so that `latest` never means the same entry twice."""

    def __init__(self, faults: dict[int, HeadwaterError | Callable[[int], Received]] | None = None) -> None:
        super().__init__(faults)
        self.head = 4

    def receive(self, after: str, *, follow: bool) -> Iterator[Received]:
        self.head += 1
        return super().receive(token(self.head) if after == "latest" else after, follow=follow)


@both
def test_latest_is_one_entry_however_often_the_connection_is_lost_before_the_first_change(use_async: bool) -> None:
    transport = Growing({2: lambda seq: page(seq, seq), 3: FeedUnreachable("cut"), 5: FeedUnreachable("cut")})

    async def read() -> tuple[str, list[Change]]:
        async def sleep(seconds: float) -> None:
            pass

        reader = AsyncReader(ScriptedAsync(transport), "latest", sleep=sleep)
        return await reader.begin(), [change async for change in reader.changes(follow=False)]

    if use_async:
        began, found = asyncio.run(read())
    else:
        reader = Reader(transport, "latest", sleep=lambda _: None)
        began, found = reader.begin(), list(reader.changes(follow=False))
    assert (seq_of(began), seqs(found), transport.faults) == (5, [6, 7, 8, 9, 10, 11, 12], {})


def test_a_cursor_kept_while_a_gap_is_repaired_is_exact_too() -> None:
    transport = Scripted({2: lambda seq: page(7, 9)})
    reader = Reader(transport, log=transport)
    assert seqs(list(islice(reader.changes(), 5))) == [1, 2, 3, 4, 5]
    assert seq_of(reader.cursor) == 5


def test_pauses_grow_with_jitter_and_are_bounded() -> None:
    backoff = Backoff(first_seconds=1.0, seconds_max=8.0, chance=lambda: 1.0)
    assert [backoff.after(FeedUnreachable("x")) for _ in range(6)] == [1, 2, 4, 8, 8, 8]
    backoff.succeeded()
    lowest = Backoff(first_seconds=1.0, chance=lambda: 0.0)
    assert (backoff.after(FeedUnreachable("x")), lowest.after(FeedUnreachable("x"))) == (1, 0.1)


def test_a_server_names_the_time_to_retry() -> None:
    backoff = Backoff(first_seconds=0.1, seconds_max=10.0)
    assert backoff.after(FeedUnreachable("x", retry_after_seconds=7)) == 7
    assert backoff.after(FeedUnreachable("x", retry_after_seconds=9_999)) == 10
