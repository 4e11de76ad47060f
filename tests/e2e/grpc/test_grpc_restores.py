"""The store is restored from a backup under open streams, directories and cursors: nobody is shown another history."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2

from headwater.schemas.rpc import common_pb2, directory_pb2, feed_pb2
from tests.support.fixtures.grpc_rig import GrpcRig, bearer, detail_of, grpc_rig, method_named

SECONDS = 60
LAKE = feed_pb2.FeedSource(catalog="lake")
LOOKUP = method_named("DirectoryService/LookupNamespace")


@pytest.fixture
def port(tmp_path: Path) -> Iterator[GrpcRig]:
    with grpc_rig(tmp_path, store=f"sqlite:///{tmp_path / 'lake.db'}") as made:
        made.rig.commit("alpha", ("first",)).raise_for_status()
        yield made


@pytest.fixture
def owner(port: GrpcRig) -> tuple[str, str]:
    return bearer(port.rig.token("alpha"))


class Backup:
    """Of the store as it is when this is made."""

    def __init__(self, port: GrpcRig, folder: Path) -> None:
        self._rig, self._folder = port.rig, folder
        self._path = Path(port.rig.config.store.removeprefix("sqlite:///"))
        _copy(self._path, folder / "backup.db")

    def restore(self) -> None:
        _copy(self._folder / "backup.db", self._path)
        self._rig.store.restores.check()


def _copy(source: Path, target: Path) -> None:
    with closing(sqlite3.connect(source, timeout=60)) as one, closing(sqlite3.connect(target, timeout=60)) as two:
        one.backup(two)


def _gone(error: grpc.RpcError) -> None:
    info: Any = detail_of(error, error_details_pb2.ErrorInfo)
    own: Any = detail_of(error, common_pb2.Error)
    assert error.code() is grpc.StatusCode.OUT_OF_RANGE
    assert (info.reason, own.code) == ("CURSOR_RESET", "MC_SNAPSHOT_EXPIRED")
    assert own.remedy, "the way out"


def test_a_stream_and_its_cursor_end_with_the_history_that_they_were_of(
    port: GrpcRig, owner: tuple[str, str], tmp_path: Path
) -> None:
    backup, feed = Backup(port, tmp_path), port.stub("FeedService")
    port.rig.commit("alpha", ("lost",)).raise_for_status()
    stream = feed.Subscribe(
        feed_pb2.SubscribeRequest(source=LAKE, after="earliest", heartbeat_seconds=0.2), metadata=[owner], timeout=SECONDS
    )
    cursor = ""
    for message in stream:
        cursor = message.frame.cursor
        if any("lost" in op.key for change in message.frame.changes for op in change.operations):
            break
    backup.restore()
    port.rig.commit("alpha", ("other",)).raise_for_status()
    shown = []
    with pytest.raises(grpc.RpcError) as ended:
        for message in stream:
            shown += [op.key for change in message.frame.changes for op in change.operations]
    assert shown == []
    _gone(ended.value)
    for read in (feed.GetChanges, feed.Subscribe):
        kind = feed_pb2.GetChangesRequest if read is feed.GetChanges else feed_pb2.SubscribeRequest
        with pytest.raises(grpc.RpcError) as refused:
            answer = read(kind(source=LAKE, after=cursor), metadata=[owner], timeout=SECONDS)
            next(iter(answer))
        _gone(refused.value)


def test_an_id_of_the_lost_history_is_not_found_and_one_of_the_new_history_is(
    port: GrpcRig, owner: tuple[str, str], tmp_path: Path
) -> None:
    backup = Backup(port, tmp_path)

    def made(level: str) -> Any:
        port.rig.commit("alpha", (level,)).raise_for_status()
        request = directory_pb2.ResolveNamespaceRequest(name=common_pb2.Name(catalog="lake", path=[level]))
        return port.call(method_named("DirectoryService/ResolveNamespace"), request, owner).resource_id

    lost = directory_pb2.LookupNamespaceRequest(resource_id=made("lost"))
    assert port.call(LOOKUP, lost, owner).name.path == ["lost"]
    backup.restore()
    other = directory_pb2.LookupNamespaceRequest(resource_id=made("other"))
    assert port.call(LOOKUP, other, owner).name.path == ["other"]
    deadline = time.monotonic() + SECONDS
    while port.status(LOOKUP, lost, owner) is grpc.StatusCode.UNAVAILABLE:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert port.status(LOOKUP, lost, owner) is grpc.StatusCode.NOT_FOUND
