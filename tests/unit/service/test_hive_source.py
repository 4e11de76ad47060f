"""What a Hive metastore may do wrong: expired and replaced logs, answers without end, nonsense."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import pytest

from headwater.producer.connectors.source_spi import ConnectorSpec, SourceCommit
from headwater.schemas.errors import (
    AddressForbidden,
    CursorExpired,
    CursorReset,
    HeadwaterError,
    InvalidInput,
    SourceRefused,
    SourceUnreachable,
)
from headwater.service.reconciling.sources.hive_source import HiveFactory, HiveSource
from headwater.service.reconciling.sources.thrift_calls import DEPTH_MAX, Fields, ThriftCalls
from headwater.service.storage.storage_roots import StorageRoots


def table(name: str, version: int) -> Fields:
    parameters = {"table_type": "iceberg", "metadata_location": f"s3://lake/{name}/{version}.json"}
    return {1: name, 2: "db", 9: parameters}


def as_json(fields: Fields) -> str:
    plain = {
        str(id): {"map": ["str", "str", len(one), one]} if isinstance(one, dict) else {"str": one} for id, one in fields.items()
    }
    return msgspec.json.encode(plain).decode()


def created(id: int, name: str, version: int = 1) -> Fields:
    message = msgspec.json.encode({"tableObjJson": as_json(table(name, version))}).decode()
    return {1: id, 2: id, 3: "CREATE_TABLE", 4: "db", 5: name, 6: message, 8: "hive"}


class Metastore(ThriftCalls):
    """In memory; `meanwhile` is what happens while it is listed."""

    def __init__(self, events: list[Fields], newest: int | None = None) -> None:
        super().__init__("", 0)
        self.events, self.fixed_newest = events, newest
        self.name, self.tables = "m", list[Fields]()
        self.meanwhile = list[Fields]()

    @property
    def newest(self) -> int:
        return self.fixed_newest if self.fixed_newest is not None else max((one[1] for one in self.events), default=0)

    def call(self, method: str, *fields: bytes) -> Fields:
        answer: Any = None
        if method == "get_metastore_db_uuid":
            answer = self.name
        elif method == "get_current_notificationEventId":
            answer = {1: self.newest}
        elif method == "get_next_notification":
            after, count = struct.unpack("!q", fields[0][6:14])[0], struct.unpack("!i", fields[0][17:21])[0]
            answer = {1: [one for one in self.events if one[1] > after][:count]}
        elif method == "get_all_databases":
            answer = ["db"]
        elif method == "get_database":
            answer = {1: "db"}
        elif method == "get_all_tables":
            answer = [one[1] for one in self.tables]
        elif method == "get_table_objects_by_name_req":
            answer = {1: self.tables}
            self.events, self.meanwhile = [*self.events, *self.meanwhile], []
        return {0: answer}


def position_after(events: list[Fields]) -> str:
    return [one.position for one in HiveSource(Metastore(events)).changes("m 0 ")][-1]


def changes(metastore: Metastore, position: str) -> list[SourceCommit]:
    return list(HiveSource(metastore).changes(position))


def test_events_follow_a_position_and_nothing_is_skipped_without_a_word() -> None:
    events = [created(id, f"t{id}") for id in range(1, 4)]
    position = position_after(events[:1])
    assert [one.version for one in changes(Metastore(events), position)] == ["2", "3"]
    for left in (events[2:], []):  # the second one has expired, or all have
        with pytest.raises(CursorExpired):
            changes(Metastore(left, newest=3), position)
    with pytest.raises(CursorExpired):
        changes(Metastore(events), "")


@pytest.mark.parametrize("change", ["restored", "another", "rewritten", "repeated"])
def test_a_log_that_is_not_the_one_that_was_followed_is_never_continued(change: str) -> None:
    events = [created(id, f"t{id}") for id in range(1, 4)]
    metastore, position = Metastore(events), position_after(events)
    match change:
        case "restored":
            metastore.events = events[:2]
        case "another":
            metastore.name = "n"
        case "rewritten":
            metastore.events = [*events[:2], created(3, "else"), created(4, "t4")]
        case "repeated":
            metastore.events = [*events, created(4, "a"), created(4, "b")]
    with pytest.raises((CursorReset, CursorExpired)):
        changes(metastore, position)


def test_a_state_includes_the_events_during_its_listing() -> None:
    metastore = Metastore([created(1, "t")])
    metastore.tables = [table("t", 1), table("gone", 1)]
    dropped = {1: 3, 2: 3, 3: "DROP_TABLE", 4: "db", 5: "gone", 6: "{}", 8: "hive"}
    metastore.meanwhile = [created(2, "new", 5), dropped]
    state = HiveSource(metastore).state()
    assert {".".join(one.key) for one in state.contents} == {"db", "db.t", "db.new"}
    assert state.version == "3" and changes(metastore, state.position) == []


@pytest.mark.parametrize("message", ["", "[]", "null", '{"tableObjJson": 1}', '{"tableObjJson": "{}"}'])
def test_an_event_that_cannot_be_read_is_an_error_and_not_passed_over(message: str) -> None:
    with pytest.raises(HeadwaterError):
        changes(Metastore([created(1, "t") | {6: message}]), "m 0 ")


# ── on the wire ─────────────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def answering(answer: bytes) -> Iterator[int]:
    """A server that says this to whoever asks, and no more."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(65_536)
                connection.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listening.getsockname()[1]
        thread.join(5)


HEAD = struct.pack("!Ii", 0x80010002, 1) + b"x" + struct.pack("!i", 0)
NESTED = HEAD + struct.pack("!bh", 12, 0) * (DEPTH_MAX + 3)
ANSWERS = {
    "nothing": b"",
    "http": b"HTTP/1.1 400 Bad Request\r\n\r\n",
    "a text of two gigabytes": HEAD + struct.pack("!bhi", 11, 0, 2**31 - 1),
    "a text of less than nothing": HEAD + struct.pack("!bhi", 11, 0, -5),
    "a list that never comes": HEAD + struct.pack("!bhbi", 15, 0, 11, 2**31 - 1),
    "nested without end": NESTED,
    "an unknown kind": HEAD + struct.pack("!bh", 99, 0),
    "an exception": struct.pack("!Ii", 0x80010003, 1) + b"x" + struct.pack("!i", 0) + b"\0",
}


@pytest.mark.parametrize("name", ANSWERS)
def test_nonsense_is_an_error_of_the_source(name: str) -> None:
    with answering(ANSWERS[name]) as port:
        calls = ThriftCalls("127.0.0.1", port)
        with pytest.raises((SourceRefused, SourceUnreachable)):
            calls.call("get_all_databases")
        calls.close()


def test_an_answer_that_takes_too_long_is_aborted() -> None:
    ticks = iter(range(0, 100_000, 200))
    with answering(HEAD + struct.pack("!bhi", 11, 0, 10) + b"0123456789\0") as port:
        calls = ThriftCalls("127.0.0.1", port, monotonic=lambda: next(ticks))
        with pytest.raises(SourceUnreachable, match="took longer"):
            calls.call("get_all_databases")
        calls.close()


@pytest.mark.parametrize(
    ("uri", "error"),
    [
        ("http://hive.example.com:9083", InvalidInput),
        ("thrift://hive.example.com", InvalidInput),
        ("thrift://ada:secret@hive.example.com:9083", InvalidInput),
        ("thrift://hive.example.com:9083/path", InvalidInput),
        ("thrift://hive.example.com:99999", InvalidInput),
        ("thrift://127.0.0.1:9083", AddressForbidden),
        ("thrift://169.254.169.254:80", AddressForbidden),
    ],
)
def test_bad_addresses_are_refused(uri: str, error: type[Exception]) -> None:
    factory = HiveFactory(frozenset(["10.0.0.9"]), StorageRoots())
    spec = ConnectorSpec(source="hive", uri=uri, roots=("s3://lake/",))
    with pytest.raises(error):
        factory.check_spec(spec)
    factory.check_spec(ConnectorSpec(source="hive", uri="thrift://10.0.0.9:9083", roots=("s3://lake/",)))
