"""The stream: events as they happen, resuming, bookmarks, and the ways in which a stream ends."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import httpx
import msgspec

import headwater
from headwater.consumers.clients.chain import Chain
from headwater.schemas.frame import Frame
from headwater.schemas.http.feed_json import FeedPage, StreamEnd
from tests.support.fixtures.feed_branch import FeedBranch, put
from tests.support.models.commit_harness import cut
from tests.support.servers.feed_server import Event, events, feed_server


@contextmanager
def stream(http: httpx.Client, headers: dict[str, str] | None = None, **parameters: Any) -> Iterator[Iterator[Event]]:
    with http.stream("GET", "/stream", params=parameters, headers=headers) as answer:
        assert answer.status_code == 200, answer.read()
        assert answer.headers["content-type"].startswith("text/event-stream")
        yield events(answer.iter_lines())


def accepted(chain: Chain, event: Event) -> list[int]:
    page = msgspec.convert(event.data, FeedPage)
    assert page.range is not None and page.cursor == event.id
    frame = Frame(pointer=chain.pointer, from_seq=page.range.from_, to_seq=page.range.to, changes=page.changes)
    return [change.seq for change in chain.accept(frame)]


def test_a_stream_sends_past_and_new_entries_once_and_in_order(branch: FeedBranch) -> None:
    for n in range(5):
        branch.commit(f"n{n}")
    chain, seqs = Chain(branch.pointer, 0), []
    with stream(branch.http, pointer=branch.pointer) as coming, branch.server.client() as other:
        seqs += accepted(chain, next(coming))
        writer = threading.Thread(target=lambda: [branch._replace(http=other).commit(f"m{n}") for n in range(30)])
        writer.start()
        while chain.seq < 36:
            seqs += accepted(chain, next(coming))
        writer.join()
    assert seqs == list(range(1, 37))


def test_a_reader_that_reconnects_misses_nothing(branch: FeedBranch) -> None:
    branch.commit("a")
    with stream(branch.http, pointer=branch.pointer) as coming:
        last = next(coming)
    branch.commit("b")
    again = {"Last-Event-ID": last.id}
    with stream(branch.http, headers=again, pointer=branch.pointer, after="earliest") as coming:
        event = next(coming)
        assert [change["seq"] for change in event.data["changes"]] == [3], "the id of the last event wins over the old query"
    with stream(branch.http, headers=again) as coming:
        assert next(coming).data["range"] == {"from": 2, "to": 3}, "it needs no other parameter"


def test_an_idle_reader_gets_bookmarks(branch: FeedBranch) -> None:
    with stream(branch.http, pointer=branch.pointer, after="latest", heartbeat=0.1) as coming:
        for event in islice(coming, 3):
            assert (event.event, event.data["changes"], event.data["range"]) == ("bookmark", [], {"from": 1, "to": 1})


def test_a_filtered_reader_resumes_from_its_bookmark_and_does_not_look_back(branch: FeedBranch) -> None:
    branch.commit("a", "b")
    with stream(branch.http, pointer=branch.pointer, after="latest", prefix="a", heartbeat=0.1) as coming:
        assert next(coming).data["range"] == {"from": 2, "to": 2}
        with branch.server.client() as other:
            for n in range(20):
                branch._replace(http=other).commit(f"b.t{n}")
        bookmark = next(event for event in coming if event.data["range"]["to"] == 22)
        assert bookmark.event == "bookmark"
    branch.commit("a.t")
    with stream(branch.http, headers={"Last-Event-ID": bookmark.id}) as coming:
        event = next(coming)
        assert [change["seq"] for change in event.data["changes"]] == [23] and event.data["range"]["from"] == 22


def test_one_stream_carries_several_pointers(new_branch: Callable[[], FeedBranch]) -> None:
    one, two = new_branch(), new_branch()
    with stream(one.http, pointer=[one.pointer, two.pointer], after="latest") as coming, one.server.client() as other:
        assert next(coming).data["ranges"] == {one.pointer: {"from": 1, "to": 1}, two.pointer: {"from": 1, "to": 1}}
        two._replace(http=other).commit("x")
        event = next(coming)
        assert [(change["pointer"], change["seq"]) for change in event.data["changes"]] == [(two.pointer, 2)]
    one.commit("y")
    with stream(one.http, headers={"Last-Event-ID": event.id}) as coming:
        assert [change["pointer"] for change in next(coming).data["changes"]] == [one.pointer]


def test_a_cursor_that_cannot_continue_is_refused_before_the_stream_begins(branch: FeedBranch) -> None:
    branch.commit("a")
    branch.commit("b")
    cut(branch.handle._kernel, branch.pointer, 3)
    time.sleep(0.5)
    refused = branch.http.get("/stream", params={"pointer": branch.pointer, "after": 0})
    assert (refused.status_code, refused.json()["code"], refused.json()["oldest"]) == (410, "CURSOR_EXPIRED", 3)
    assert branch.http.get("/stream", params={"pointer": "cat/1/heads/none"}).json()["code"] == "POINTER_NOT_FOUND"
    assert branch.http.get("/stream").json()["field"] == "pointer"


def test_a_reader_that_goes_is_forgotten(branch: FeedBranch) -> None:
    def open_streams() -> float:
        text = httpx.get(f"{branch.server.url}/metrics").text
        return next(float(line.split()[1]) for line in text.splitlines() if line.startswith("headwater_streams "))

    with stream(branch.http, pointer=branch.pointer, after="latest") as coming:
        next(coming)
        assert open_streams() >= 1
    deadline = time.monotonic() + 10
    while open_streams() > 0 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert open_streams() == 0


def test_a_reader_that_does_not_keep_up_gets_a_typed_last_event_with_its_cursor(tmp_path: Path) -> None:
    settings = {"stream_stall_seconds": 1}
    with (
        feed_server(f"sqlite:///{tmp_path}/lake.db", settings=settings) as server,
        server.client() as http,
        headwater.open(server.store_url) as engine,
    ):
        pointer = engine.realm().catalog("lake").branch().pointer
        for n in range(40):
            content = {"type": "ICEBERG_TABLE", "content": {"metadata_location": "x" * 8_000}}
            operations = [{"op": "put", "key": [f"t{n}-{k}"], **content} for k in range(40)]
            assert http.post("/commit", json={"catalog": "lake", "operations": operations}).status_code == 200
        sleeper = socket.socket()
        sleeper.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
        sleeper.connect(("127.0.0.1", server.port))
        sleeper.sendall(f"GET /feed/v1/default/stream?pointer={pointer} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        time.sleep(1.5)
        found = list(events(iter(unchunked(sleeper).decode().splitlines())))
        assert found[-1].event == "end", [event.event for event in found]
        end = msgspec.convert(found[-1].data, StreamEnd)
        assert end.reason == "slow" and end.cursor == found[-1].id == found[-2].id
        seqs = [change["seq"] for event in found[:-1] for change in event.data["changes"]]
        assert seqs == list(range(1, len(seqs) + 1)) and len(seqs) < 41
        resumed = http.get("/changes", params={"after": end.cursor}).json()
        assert resumed["range"]["from"] == len(seqs), "no seam"
        assert "headwater_streams_slow_total 1.0" in httpx.get(f"{server.url}/metrics").text


def unchunked(connection: socket.socket) -> bytes:
    """The body of a chunked answer, read to its end."""
    connection.settimeout(30)
    data = b""
    with connection:
        while not data.endswith(b"\r\n0\r\n\r\n") and (piece := connection.recv(1 << 20)):
            data += piece
    rest, body = data.partition(b"\r\n\r\n")[2], b""
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        body += rest[: int(size, 16)]
        rest = rest[int(size, 16) + 2 :]
    return body


def test_a_truncation_under_a_stream_ends_it_with_a_remedy(tmp_path: Path) -> None:
    """The reader stalls in the middle of history; meanwhile that history is cut and its entries are swept."""
    settings = {"feed_cache_bytes": 0, "cache_bytes": 0, "stream_stall_seconds": 60}
    with (
        feed_server(f"sqlite:///{tmp_path}/lake.db", settings=settings) as server,
        server.client() as http,
        headwater.open(server.store_url) as engine,
    ):
        main = engine.realm().catalog("lake").branch()
        for n in range(60):
            operations = [{**put("a.b"), "key": [f"t{n % 3}-{k}"]} for k in range(20)]
            content = {"content": {"metadata_location": f"{n}" + "x" * 7_500}}
            body = {"catalog": "lake", "operations": [{**operation, **content} for operation in operations]}
            assert http.post("/commit", json=body).status_code == 200
        sleeper = socket.socket()
        sleeper.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
        sleeper.connect(("127.0.0.1", server.port))
        sleeper.sendall(f"GET /feed/v1/default/stream?pointer={main.pointer} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        time.sleep(0.5)
        cut(main._kernel, main.pointer, 55)
        time.sleep(0.5)
        found = list(events(iter(unchunked(sleeper).decode().splitlines())))
        end = msgspec.convert(found[-1].data, StreamEnd)
        assert end.reason == "failed" and end.problem is not None
        assert (end.problem.code, end.problem.oldest, end.problem.head) == ("CURSOR_EXPIRED", 55, 61)
        assert end.problem.snapshot_url is not None
        seqs = [change["seq"] for event in found[:-1] for change in event.data["changes"]]
        assert seqs == list(range(1, len(seqs) + 1)) and len(seqs) < 54, "no hole before the end"


def test_a_stopping_server_notifies_its_readers_and_finishes_accepted_requests(tmp_path: Path) -> None:
    with feed_server(f"sqlite:///{tmp_path}/lake.db") as server, server.client() as http, server.client() as writer:
        pointer = http.get("/pointers", params={"prefix": "cat/"}).json()["pointers"][0]["name"]
        acknowledged: list[str] = []
        refused: list[str] = []

        def write() -> None:
            for n in range(10_000):
                operations = [{"op": "put", "key": [f"n{n}"], "type": "NAMESPACE", "content": {}}]
                try:
                    answer = writer.post("/commit", json={"catalog": "lake", "operations": operations})
                except httpx.TransportError as error:
                    refused.append(str(error))
                    return
                if answer.status_code != 200:
                    refused.append(answer.text)
                    return
                acknowledged.append(answer.json()["commit_id"])

        polled: list[int] = []
        with server.client() as poller, stream(http, pointer=pointer) as coming:
            poll = threading.Thread(
                target=lambda: polled.append(
                    poller.get("/changes", params={"pointer": "principals", "after": "latest", "wait": 60}).status_code
                )
            )
            poll.start()
            writing = threading.Thread(target=write)
            writing.start()
            next(coming)
            time.sleep(0.3)
            server.process.terminate()
            last = list(coming)[-1]
            assert last.event == "end"
            assert msgspec.convert(last.data, StreamEnd).reason == "shutdown"
            assert server.process.wait(20) == 0
            writing.join(20)
            poll.join(20)
        assert polled == [200], "a long poll is answered, not cut"
        assert refused and acknowledged
        assert server.log[-1]["message"] == "stopped"
        with headwater.open(server.store_url) as engine:
            _, *log = [change.commit_id for change in engine.realm().catalog("lake").branch().changes()]
        assert log == acknowledged, "what is in the log was acknowledged too"
        assert json.dumps(last.data)
