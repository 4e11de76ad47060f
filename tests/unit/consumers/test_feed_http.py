"""What servers say becomes typed errors and frames, and what is not a feed is refused."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.consumers.clients.feed_http import FeedTarget, error_of, filter_query, received_of
from headwater.consumers.clients.sse import EventParser, ServerSentEvent
from headwater.schemas.change import Kind, Op
from headwater.schemas.cursor import Cursor, Position, encode_cursor
from headwater.schemas.errors import (
    Conflict,
    CursorExpired,
    CursorReset,
    FeedUnreachable,
    HeadwaterError,
    InvalidInput,
    NotFound,
    RealmNotFound,
)
from headwater.schemas.filters import Filter
from headwater.schemas.http.feed_json import FeedPage, Head, Problem, Range
from tests.support.models.feed_histories import POINTER, history

CURSOR = encode_cursor(Cursor("r#1", {POINTER: Position(3, b"")}))
TARGET = FeedTarget(server="http://host/", realm="a realm", pointers=(POINTER,))


def problem(code: str, status: int, **facts: int) -> bytes:
    return msgspec.json.encode(
        Problem(type="t", title="t", status=status, detail="why", code=code, retriable=False, facts=facts, snapshot_url="/s")
    )


@pytest.mark.parametrize("kind", [CursorExpired, CursorReset, RealmNotFound])
def test_a_problem_is_the_error_that_it_was_on_the_server(kind: type[HeadwaterError]) -> None:
    error = error_of(kind.http_status, problem(kind.code, kind.http_status, oldest=4, head=9), {})
    assert type(error) is kind
    assert (error.message, error.facts["oldest"], error.facts["snapshot_url"]) == ("why", 4, "/s")


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, InvalidInput),
        (404, NotFound),
        (409, Conflict),
        (410, CursorExpired),
        (429, FeedUnreachable),
        (502, FeedUnreachable),
    ],
)
def test_answers_of_proxies_are_recognized_by_their_status(status: int, kind: type[HeadwaterError]) -> None:
    for body in (b"<html>", problem("A_CODE_OF_TOMORROW", status)):
        error = error_of(status, body, {"retry-after": "3"})
        assert type(error) is kind and error.facts["retry_after_seconds"] == 3


def test_a_page_that_is_not_a_page_is_refused() -> None:
    for body in (b"", b"<html>", b"{}", b'{"changes": 1, "cursor": ""}'):
        with pytest.raises(InvalidInput, match="not a page"):
            received_of(body, TARGET)


def test_a_page_of_one_pointer_and_a_page_of_several_become_frames() -> None:
    changes = tuple(history(3))
    one = FeedPage(changes=changes, cursor=CURSOR, range=Range(0, 3), head=Head(9, "", ""))
    (frame,) = received_of(msgspec.json.encode(one), TARGET).frames
    assert (frame.pointer, frame.from_seq, frame.to_seq, frame.changes) == (POINTER, 0, 3, changes)
    other = tuple(history(2, "other"))
    several = FeedPage(
        changes=(*changes, *other),
        cursor=CURSOR,
        ranges={POINTER: Range(0, 3), "other": Range(0, 2), "idle": Range(5, 5)},
        heads={POINTER: Head(3, "", ""), "other": Head(2, "", ""), "idle": Head(5, "", "")},
    )
    received = received_of(msgspec.json.encode(several), TARGET)
    assert {frame.pointer: len(frame.changes) for frame in received.frames} == {POINTER: 3, "other": 2, "idle": 0}
    assert received.heads == {POINTER: 3, "other": 2, "idle": 5}


def test_addresses_and_filters_are_sent_as_the_server_reads_them() -> None:
    assert TARGET.url("changes") == "http://host/feed/v1/a%20realm/changes"
    asked = Filter(kinds=(Kind.COMMIT,), operations=(Op.PUT, Op.DELETE), types=("T",), prefix=("a.b", "c"), content_ids=("i",))
    assert filter_query(asked) == [
        ("kind", "commit"), ("op", "put"), ("op", "delete"), ("type", "T"), ("content_id", "i"), ("prefix", "a.b\x1fc"),
    ]  # fmt: skip
    with pytest.raises(InvalidInput):
        filter_query(Filter(prefix=("a.b",)))


@given(st.sampled_from(["\n", "\r", "\r\n"]), st.lists(st.integers(1, 20), min_size=1, max_size=60))
def test_events_are_read_as_the_standard_says_however_they_are_cut(line_end: str, sizes: list[int]) -> None:
    lines = [
        ": comment",
        "event: changes",
        "id: 7",
        "data: o\u2028n\x85e",
        "data:two",
        "retry: 5",
        "unknown",
        "",
        "",
        "event: lost",
    ]
    raw = line_end.join([*lines, "", "data: plain", "", ""]).encode()
    parser, events = EventParser(), list[ServerSentEvent]()
    while raw:
        size = sizes.pop() if sizes else len(raw)
        events += parser.feed(raw[:size])
        raw = raw[size:]
    assert events == [ServerSentEvent("changes", "o\u2028n\x85e\ntwo", "7"), ServerSentEvent("message", "plain", "7")]
