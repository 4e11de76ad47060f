"""Subscribe under bad conditions: rights that end, readers that stall, servers that stop, streams that are left open."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2
from google.rpc.status_pb2 import Status

from headwater.producer.access.principals import Principals
from headwater.producer.access.rights import Right
from headwater.schemas.rpc import feed_pb2
from tests.support.fixtures.access_rig import CHEAP, META
from tests.support.fixtures.grpc_rig import GrpcRig, bearer, grpc_rig

SECONDS = 60
STALL_SECONDS = 1.0
LARGE_COMMITS = 40
"""Of 270 kB each: more than the transport takes from a reader who does not read."""


@pytest.fixture
def port(tmp_path: Any) -> Iterator[GrpcRig]:
    with grpc_rig(tmp_path, stall_seconds=STALL_SECONDS) as made:
        made.rig.commit("alpha", ("first",)).raise_for_status()
        yield made


def _subscribe(port: GrpcRig, token: str, after: str = "earliest") -> Any:
    request = feed_pb2.SubscribeRequest(source=feed_pb2.FeedSource(catalog="lake"), after=after, heartbeat_seconds=1)
    return port.stub("FeedService").Subscribe(request, metadata=[bearer(token)], timeout=SECONDS)


def _until_refused(stream: Any) -> tuple[list[feed_pb2.Frame], grpc.RpcError]:
    frames: list[feed_pb2.Frame] = []
    with pytest.raises(grpc.RpcError) as refused:
        for message in stream:
            frames.append(message.frame)
    return frames, refused.value


def _seqs(frames: list[feed_pb2.Frame]) -> list[int]:
    return [change.seq for frame in frames for change in frame.changes]


def test_a_stream_ends_when_its_principal_is_deleted_and_shows_nothing_more(port: GrpcRig) -> None:
    token = port.rig.principal("alpha", "watcher", Right.FEED_READ)
    stream = _subscribe(port, token)
    assert _seqs([next(stream).frame]) == [1, 2]
    Principals(port.rig.kernel("alpha"), cost=CHEAP).delete("watcher", meta=META)
    port.rig.commit("alpha", ("secret",)).raise_for_status()
    frames, error = _until_refused(stream)
    assert error.code() is grpc.StatusCode.UNAUTHENTICATED
    assert not any("secret" in op.key for frame in frames for change in frame.changes for op in change.operations)


def test_a_stream_shows_nothing_more_once_the_right_is_revoked(port: GrpcRig) -> None:
    token = port.rig.principal("alpha", "reader", Right.FEED_READ)
    stream = _subscribe(port, token)
    assert _seqs([next(stream).frame]) == [1, 2]
    port.rig.revoke("alpha", "reader", Right.FEED_READ)
    port.rig.commit("alpha", ("secret",)).raise_for_status()
    deadline = time.monotonic() + SECONDS
    try:
        for message in stream:
            assert not any("secret" in op.key for change in message.frame.changes for op in change.operations)
            if message.frame.heads and max(head.seq for head in message.frame.heads.values()) >= 3:
                break  # it was told that there is more, and not what
            assert time.monotonic() < deadline
    except grpc.RpcError as error:
        assert error.code() in (grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.NOT_FOUND)
    finally:
        stream.cancel()


def test_a_reader_that_stalls_gets_its_cursor_and_continues_after_it(port: GrpcRig) -> None:
    token = port.rig.token("alpha")
    stream = _subscribe(port, token)
    first = next(stream).frame
    content = {"properties": {"much": "x" * 90_000}}
    for number in range(LARGE_COMMITS):
        operations = [{"op": "put", "key": [f"n{number}-{n}"], "type": "NAMESPACE", "content": content} for n in range(3)]
        body = {"catalog": "lake", "message": "large", "operations": operations}
        port.rig.ask("POST", "/feed/v1/alpha/commit", token=token, json=body).raise_for_status()
    deadline = time.monotonic() + SECONDS
    while port.rig.service.streams.slow_ended == 0:
        assert time.monotonic() < deadline, "the stall must be noticed"
        time.sleep(0.05)
    frames, error = _until_refused(stream)
    call: Any = error
    info = error_details_pb2.ErrorInfo()
    status = Status.FromString(dict(call.trailing_metadata())["grpc-status-details-bin"])
    assert any(detail.Unpack(info) for detail in status.details)
    assert (call.code(), info.reason) == (grpc.StatusCode.ABORTED, "SLOW_READER")
    seen = _seqs([first, *frames])
    assert seen == list(range(1, len(seen) + 1)) and len(seen) < LARGE_COMMITS
    again = _subscribe(port, token, info.metadata["cursor"])
    going_on = next(again).frame.changes[0].seq
    assert seen[0] < going_on <= seen[-1] + 1, "a frame that was on its way may come twice, and none is missing"
    again.cancel()


def test_a_server_that_stops_ends_its_streams_with_their_cursor(port: GrpcRig) -> None:
    stream = _subscribe(port, port.rig.token("alpha"))
    frame = next(stream).frame

    async def stop() -> None:
        port.rig.service.stopping.set()

    port.rig.run(stop())
    last = list(stream)[-1]
    assert last.WhichOneof("event") == "end"
    assert (last.end.reason, last.end.cursor) == ("shutdown", frame.cursor)


def test_streams_that_are_left_open_do_not_keep_their_place(port: GrpcRig) -> None:
    """Readers that go away without a word are noticed, and their streams are closed."""
    token = port.rig.token("alpha")
    streams = [_subscribe(port, token) for _ in range(30)]
    for stream in streams:
        next(stream)
    assert len(port.rig.service.streams.open) == 30
    for stream in streams:
        stream.cancel()
    deadline = time.monotonic() + SECONDS
    while port.rig.service.streams.open or port.rig.gate.budgets.requests:
        assert time.monotonic() < deadline, "the places must be given back"
        time.sleep(0.02)
