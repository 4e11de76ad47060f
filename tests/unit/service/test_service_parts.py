"""Parts of the server by themselves: the cache of encoded entries, the query parser, hosts, and numbers of several workers."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.persistence.store import StoreOptions
from headwater.schemas.errors import ForeignOrigin, InvalidInput
from headwater.service.config import ServeConfig, check_config
from headwater.service.http import parameters
from headwater.service.http.origins import check_origin
from headwater.service.http.parameters import parse_query
from headwater.service.observability.metrics import WorkerMetrics
from headwater.service.operations.encoded_entries import ENTRY_BYTES, EncodedEntries, EncodedEntry
from tests.support.servers.self_signed import self_signed


def entry(seq: int, size: int = 100) -> EncodedEntry:
    return EncodedEntry(seq, bytes([seq % 256]) * 32, b"", seq, b"x" * size)


def test_encoded_entries_stay_within_their_bytes_and_the_oldest_go_first() -> None:
    kept = EncodedEntries(10 * (100 + ENTRY_BYTES))
    for seq in range(1, 31):
        kept._put("log", entry(seq))
    assert kept.bytes_used <= kept.bytes_max
    assert kept.run("log", 21, 30) is not None and kept.get("log", 20) is None
    assert kept.run("log", 20, 30) is None and kept.run("other", 21, 30) is None
    kept._put("log", entry(31, size=1_000_000))
    assert kept.get("log", 31) is None and kept.get("log", 30) is not None, "one that alone exceeds the bound is not kept"


def test_a_reader_of_old_history_does_not_push_out_the_newest_entries() -> None:
    kept = EncodedEntries(20 * (100 + ENTRY_BYTES))
    for seq in range(10_001, 10_009):
        kept._put("log", entry(seq))
    for seq in range(1, 5_000):
        kept._put("log", entry(seq), is_old=True)
    assert kept.run("log", 10_001, 10_008) is not None
    assert kept.run("log", 4_990, 4_999) is not None, "of what it reads the last entries are kept"
    for seq in range(10_009, 10_021):
        kept._put("log", entry(seq))
    assert kept.run("log", 10_001, 10_020) is not None and kept.get("log", 4_999) is None, "new entries take the place of old"


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 40), st.integers(0, 900), st.booleans()), max_size=80))
def test_the_bound_of_encoded_entries_holds_for_any_sequence(puts: list[tuple[str, int, int, bool]]) -> None:
    kept = EncodedEntries(5_000)
    for log, seq, size, is_old in puts:
        kept._put(log, entry(seq, size), is_old)
        held = [one for entries in kept._logs.values() for one in entries.values()]
        assert kept.bytes_used == sum(len(one.json) + ENTRY_BYTES for one in held) <= kept.bytes_max


@given(st.binary(max_size=300))
def test_any_query_is_parsed_or_refused(query: bytes) -> None:
    for table in (parameters.CHANGES, parameters.SNAPSHOT, parameters.POINTERS):
        try:
            values = parse_query(query, table)
        except InvalidInput:
            continue
        assert set(values) == {parameter.name for parameter in table}


def test_values_and_defaults_of_a_query() -> None:
    values = parse_query(b"pointer=a&pointer=b&pointer=a&limit=7&wait=0.5", parameters.CHANGES)
    assert (values["pointer"], values["limit"], values["wait"], values["after"]) == (("a", "b"), 7, 0.5, None)
    assert parse_query(b"", parameters.CHANGES)["limit"] == 100


def test_only_development_on_loopback_is_served() -> None:
    config = ServeConfig(store="sqlite:///x", store_options=StoreOptions(), dev=True)
    for host in ("127.0.0.1", "127.0.0.2", "::1", "localhost"):
        check_config(msgspec.structs.replace(config, host=host))
    for host in ("0.0.0.0", "::", "10.0.0.1", "example.com", ""):
        with pytest.raises(InvalidInput, match="loopback"):
            check_config(msgspec.structs.replace(config, host=host))


def test_only_loopback_is_served_without_tls_unless_configured_otherwise(tmp_path: Path) -> None:
    certificate, key = self_signed(tmp_path)
    asks = ServeConfig(store="sqlite:///x.db", store_options=StoreOptions(), dev=False)
    check_config(asks)
    for host in ("0.0.0.0", "::", "10.0.0.1", "example.com"):
        open_to_all = msgspec.structs.replace(asks, host=host)
        with pytest.raises(InvalidInput, match="TLS"):
            check_config(open_to_all)
        check_config(msgspec.structs.replace(open_to_all, allow_plaintext=True))
        check_config(msgspec.structs.replace(open_to_all, tls_certificate=certificate, tls_key=key))
    for one, other, field in (
        (certificate, "", "tls_key"),
        ("", key, "tls_key"),
        (certificate, "/absent.pem", "tls_key"),
        (key, certificate, "tls_certificate"),
    ):
        with pytest.raises(InvalidInput) as refused:
            check_config(msgspec.structs.replace(asks, tls_certificate=one, tls_key=other))
        assert refused.value.field == field


def test_hosts_and_origins_of_elsewhere_are_refused() -> None:
    for name, value in ((b"host", b"localhost:1"), (b"host", b"[::1]:1"), (b"origin", b"http://127.0.0.1:3"), (b"x", b"y")):
        check_origin({"headers": [(name, value)]})
    for name, value in ((b"host", b"evil"), (b"host", b""), (b"origin", b"null"), (b"origin", b"https://localhost.evil")):
        with pytest.raises(ForeignOrigin):
            check_origin({"headers": [(name, value)]})


def test_numbers_of_workers_are_added_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workers = []
    for pid in (1, 2, 3):
        monkeypatch.setattr("os.getpid", lambda pid=pid: pid)
        workers.append(WorkerMetrics(tmp_path))
    for worker in workers:
        worker.requests.add("/x", "GET", 200, 0.002)
        worker.write()
    workers[0].requests.add("/x", "GET", 200, 20.0)
    text = workers[0].text().decode()
    assert 'headwater_http_requests_total{method="GET",route="/x",status="200"} 4.0' in text
    assert 'headwater_http_request_seconds_bucket{le="+Inf",route="/x"} 4.0' in text
    assert 'headwater_http_request_seconds_bucket{le="0.0025",route="/x"} 3.0' in text
    (tmp_path / "9.msgpack").write_bytes(b"half a file")
    assert workers[0].text().decode() == text, "a worker's broken file is left out"
