"""What an operator sees: starting, refusing to start, readiness, metrics, logs, request ids, several workers on one store."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import httpx
import pytest

import headwater
from headwater.consumers.clients.chain import Chain
from tests.support.faults.tcp_proxy import TcpProxy
from tests.support.fixtures.cli_runs import headwater as run_cli
from tests.support.fixtures.feed_branch import FeedBranch
from tests.support.servers.feed_server import FeedServer, feed_server
from tests.support.servers.servers import FreshUrl


def metric(text: str, name: str) -> float:
    """The sum over all labels."""
    found = [float(line.rpartition(" ")[2]) for line in text.splitlines() if line.startswith((f"{name} ", f"{name}{{"))]
    assert found, f"there is no {name}"
    return sum(found)


def test_dev_creates_what_it_promises_and_keeps_existing_data(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/lake.db"
    with feed_server(url) as server, server.client() as http:
        assert [p["name"] for p in http.get("/pointers", params={"prefix": "cat/"}).json()["pointers"]] == ["cat/1/heads/main"]
        body = {"catalog": "lake", "operations": [{"op": "put", "key": ["db"], "type": "NAMESPACE", "content": {}}]}
        made = http.post("/commit", json=body).json()
    assert (tmp_path / "lake-warehouse").is_dir()
    with feed_server(url, "--host", "localhost") as server, server.client() as http:
        page = http.get("/changes", params={"pointer": "cat/1/heads/main"}).json()
        assert [change["seq"] for change in page["changes"]] == [1, 2] and page["head"]["commit_id"] == made["commit_id"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["serve"], "store"),
        (["serve", "--host", "0.0.0.0"], "TLS"),
        (["serve", "--dev", "--host", "0.0.0.0"], "host"),
        (["serve", "--dev", "--host", "example.com"], "host"),
        (["--store", "memory://", "serve", "--dev", "--workers", "2"], "workers"),
        (["--store", "nonsense", "serve", "--dev"], "store"),
        (["--store", "sqlite:////nowhere/at/all/lake.db", "serve", "--dev"], "STORE"),
    ],
)
def test_invalid_serve_options_are_one_line(arguments: list[str], said: str) -> None:
    run = run_cli(*arguments)
    last = run.err.strip().splitlines()[-1]
    assert run.code == 2 and said in last and "Traceback" not in run.err, run.err


def test_a_memory_store_is_served(tmp_path: Path) -> None:
    with feed_server("memory://") as server, server.client() as http:
        assert http.get("/changes", params={"pointer": "cat/1/heads/main"}).json()["head"]["seq"] == 1


def test_the_plain_pages_answer(shared_feed: FeedServer) -> None:
    assert httpx.get(f"{shared_feed.url}/livez").json() == {"status": "alive"}
    assert httpx.get(f"{shared_feed.url}/readyz").json() == {"status": "ready"}
    front = httpx.get(f"{shared_feed.url}/")
    assert front.headers["content-type"].startswith("text/html") and "/openapi.json" in front.text
    for path in ("/feed/v1/default/pointers", "/feed/v1/default/changes?pointer=catalogs", "/openapi.json", "/metrics"):
        assert path in front.text and httpx.get(shared_feed.url + path).status_code == 200


def test_metrics_count_events(branch: FeedBranch) -> None:
    def text() -> str:
        return httpx.get(f"{branch.server.url}/metrics").text

    before = text() + "headwater_commit_conflicts_total 0\n"
    for n in range(3):
        branch.commit(f"n{n}")
    bad = {"catalog": "lake", "branch": branch.name, "operations": [{"op": "delete", "key": ["none"]}]}
    assert branch.http.post("/commit", json=bad).status_code == 409
    after = text()
    for name, by in (("headwater_commits_total", 3), ("headwater_commit_conflicts_total", 1)):
        assert metric(after, name) - metric(before, name) == by, name
    route = 'headwater_http_requests_total{method="POST",route="/feed/v1/{realm}/commit",status="409"}'
    assert route in after
    for name in (
        "headwater_batches_total",
        "headwater_commit_retries_total",
        "headwater_batch_entries_count",
        "headwater_cache_hits_total",
        "headwater_cache_misses_total",
        "headwater_cache_bytes",
        "headwater_entry_cache_bytes",
        "headwater_streams",
        "headwater_stream_lag_commits",
        "headwater_stream_lag_seconds",
        "headwater_http_request_seconds_count",
    ):
        metric(after, name)
    for family in ("headwater_feed_lag_commits", "headwater_feed_lag_seconds", "headwater_pin_seq"):
        assert f"# TYPE {family} gauge" in after


def test_a_request_id_is_returned_and_generated_if_missing(branch: FeedBranch) -> None:
    for path in ("/pointers", "/nothing", "/changes?pointer=catalogs", "/stream?pointer=none"):
        answer = branch.http.get(path, headers={"X-Request-ID": "abc-1"})
        assert answer.headers["x-request-id"] == "abc-1"
        if answer.status_code >= 400:
            assert answer.json()["request_id"] == "abc-1"
    assert httpx.get(f"{branch.server.url}/livez", headers={"X-Request-ID": "abc-2"}).headers["x-request-id"] == "abc-2"
    for bad in ("", "a b", "x" * 200, "a\tb"):
        made = branch.http.get("/pointers", headers={"X-Request-ID": bad}).headers["x-request-id"]
        assert made != bad and len(made) == 16


def test_spans_are_exported_when_enabled(tmp_path: Path) -> None:
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    with feed_server(f"sqlite:///{tmp_path}/lake.db", settings={"traces": "stderr"}) as server, server.client() as http:
        body = {"catalog": "lake", "operations": [{"op": "put", "key": ["db"], "type": "NAMESPACE", "content": {}}]}
        http.post("/commit", json=body, headers={"traceparent": f"00-{trace}-00f067aa0ba902b7-01"})
    text = server.log_text
    assert trace in text and '"name": "headwater.commit"' in text


def test_readiness_follows_the_store(fresh_postgres: FreshUrl) -> None:
    parts = urlsplit(fresh_postgres())
    assert parts.hostname is not None and parts.port is not None
    with TcpProxy(parts.hostname, parts.port) as proxy:
        url = urlunsplit(parts._replace(netloc=f"{parts.netloc.rpartition('@')[0]}@127.0.0.1:{proxy.port}"))
        with feed_server(url, settings={"log_requests": "true"}) as server, server.client() as http:
            seen = http.get("/changes?pointer=catalogs", headers={"X-Request-ID": "seen-in-log"}).json()
            proxy.close()  # the store is away from here on
            assert wait_for(lambda: httpx.get(f"{server.url}/readyz", timeout=20).status_code, 503)
            problem = httpx.get(f"{server.url}/readyz", timeout=20).json()
            assert (problem["code"], problem["retriable"]) == ("NOT_SERVING", True)
            assert httpx.get(f"{server.url}/livez").status_code == 200
            assert wait_for(lambda: http.get("/changes?pointer=catalogs").status_code, 503), "what is old is not served as new"
            assert seen["head"]["seq"] == 3
    line = next(line for line in server.log if line.get("request_id") == "seen-in-log")
    assert (line["method"], line["route"], line["status"]) == ("GET", "/feed/v1/{realm}/changes", 200)
    assert {"time", "level", "seconds", "realm"} <= set(line)
    assert parts.password is None or parts.password not in server.log_text, "logs are without secrets"


def wait_for(ask: Any, wanted: object, seconds: float = 30) -> bool:
    deadline = time.monotonic() + seconds
    while ask() != wanted:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


# ── several workers, several servers ────────────────────────────────────────────────────────────────────────


def test_workers_and_servers_on_one_store_behave_as_one(fresh_postgres: FreshUrl) -> None:
    """Two workers in one server and a second server: writers everywhere, and every reader sees one chain."""
    url = fresh_postgres()
    with feed_server(url, "--workers", "2") as one, feed_server(url) as two:
        servers = (one, two)
        pointer = "cat/1/heads/main"
        made: list[str] = []
        chains: list[list[int]] = []

        def write(writer: int) -> None:
            previous = None
            for n in range(10):
                with servers[(writer + n) % 2].client() as http:  # a new connection each time: any worker may get it
                    operation: dict[str, Any] = {"op": "put", "key": [f"w{writer}"], "type": "ICEBERG_TABLE"}
                    operation["content"] = {"metadata_location": f"s3://{writer}/{n}"}
                    if previous is not None:
                        operation["expected"] = {"metadata_location": previous}
                    answer = http.post("/commit", json={"catalog": "lake", "operations": [operation]})
                    assert answer.status_code == 200, f"a commit through one is there for the other: {answer.text}"
                    previous = f"s3://{writer}/{n}"
                    commit_id = answer.json()["commit_id"]
                    made.append(commit_id)
                    other = httpx.get(f"{servers[(writer + n + 1) % 2].feed}/commits/{commit_id}", timeout=30)
                    assert other.status_code == 200, "whoever asks for its id finds it everywhere, at once"

        def read(server: FeedServer) -> None:
            chain, after = Chain(pointer, 0), "0"
            seqs: list[int] = []
            deadline = time.monotonic() + 60
            while chain.seq < 41 and time.monotonic() < deadline:
                page = httpx.get(f"{server.feed}/changes?pointer={pointer}&after={after}&wait=5&limit=7", timeout=30).json()
                assert page["range"]["from"] == chain.seq
                seqs += [change["seq"] for change in page["changes"]]
                chain.seq, after = page["range"]["to"], page["cursor"]
            chains.append(seqs)

        threads = [threading.Thread(target=write, args=(n,)) for n in range(4)]
        threads += [threading.Thread(target=read, args=(server,)) for server in (one, two)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(made) == 40 and chains == [list(range(1, 42))] * 2
        assert wait_for(lambda: metric(httpx.get(f"{one.url}/metrics").text, "headwater_commits_total") >= 1, True)
        retried = httpx.post(
            f"{two.feed}/commit",
            json={"catalog": "lake", "operations": [{"op": "put", "key": ["k"], "type": "NAMESPACE", "content": {}}]},
            headers={"Idempotency-Key": "same"},
            timeout=30,
        ).json()
        again = httpx.post(
            f"{one.feed}/commit",
            json={"catalog": "lake", "operations": [{"op": "put", "key": ["k"], "type": "NAMESPACE", "content": {}}]},
            headers={"Idempotency-Key": "same"},
            timeout=30,
        ).json()
        assert again["replayed"] and again["commit_id"] == retried["commit_id"]


def test_any_worker_serves_the_metrics_of_all(tmp_path: Path) -> None:
    with feed_server(f"sqlite:///{tmp_path}/lake.db", "--workers", "2") as server:
        for _ in range(40):
            httpx.get(f"{server.feed}/pointers")
        counted = 'headwater_http_requests_total{method="GET",route="/feed/v1/{realm}/pointers",status="200"}'
        # Workers exchange their numbers twice a second: six answers in a row, of whichever worker, must come to agree.
        assert wait_for(lambda: {metric_line(server, counted) for _ in range(6)}, {40.0})


def metric_line(server: FeedServer, start: str) -> float:
    lines = httpx.get(f"{server.url}/metrics").text.splitlines()
    return next((float(line.rpartition(" ")[2]) for line in lines if line.startswith(start)), 0.0)


def test_a_killed_worker_is_replaced_and_workers_of_a_killed_server_end(tmp_path: Path) -> None:
    with feed_server(f"sqlite:///{tmp_path}/lake.db", exit_code=-signal.SIGKILL) as server:
        with server.client() as http:
            operations = [{"op": "put", "key": ["db"], "type": "NAMESPACE", "content": {}}]
            made = http.post("/commit", json={"catalog": "lake", "operations": operations}).json()["commit_id"]
        os.kill(workers_of(server)[0], signal.SIGKILL)
        assert wait_for(lambda: len(workers_of(server)), 2)
        server.wait_until_ready()
        assert httpx.get(f"{server.feed}/commits/{made}").json()["commit_id"] == made
        worker = workers_of(server)[1]
        server.process.kill()
        assert wait_for(lambda: Path(f"/proc/{worker}").exists(), False), "it would hold the port forever"
        assert server.log[-1]["message"] == "stopped", "and it ends in order"
    with headwater.open(server.store_url) as engine:
        assert engine.realm().catalog("lake").branch().info().commit_id == made


def workers_of(server: FeedServer) -> list[int]:
    return [line["worker"] for line in server.log if line["message"] == "serving"]


def test_the_server_prints_its_addresses_when_it_is_ready(shared_feed: FeedServer) -> None:
    deadline = time.monotonic() + 60
    while "metrics" not in shared_feed.log_text:
        assert time.monotonic() < deadline, shared_feed.log_text
        time.sleep(0.05)
    shown = shared_feed.log_text
    assert "no token is asked for" in shown and f"{shared_feed.url}/iceberg" in shown and "/openapi.json" in shown


def test_a_server_that_cannot_start_prints_only_the_reason(tmp_path: Path) -> None:
    assert "STORE_NOT_CREATED" in run_cli("serve", "--store", f"sqlite:///{tmp_path}/none.db").error
