"""A server that maintains its store in the background: garbage goes while it answers, numbers say so, and it ends with it."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

import headwater
from headwater.persistence.store import open_store
from headwater.streaming.runs.runs import Runs, RunStatus
from tests.support.fixtures.cli_runs import headwater as run_headwater
from tests.support.fixtures.maintained import Maintained
from tests.support.servers.served import ServedStore, served

WAIT_SECONDS = 60.0


@pytest.fixture
def lake(tmp_path: Path) -> tuple[str, Maintained]:
    """A store whose realm `default` has a history of last winter."""
    url = f"sqlite:///{tmp_path}/lake.db"
    with headwater.open(url, create=True) as engine:
        instance = engine.ensure_realm().kernel.realm
    store = open_store(url)
    realm = Maintained(store.backend, seed=5, realm=instance)
    realm.pointers = realm.pointers[:3]  # an initialized realm has principals of its own
    realm.clock.micros = store.clock.now_micros() - 60 * 86_400 * 1_000_000
    for _ in range(80):
        realm.step()
    return url, realm


@pytest.fixture(autouse=True)
def walking(monkeypatch: pytest.MonkeyPatch) -> None:
    """No Spark session beside each of these servers; `test_spark_schedule` sweeps by the streamed set."""
    monkeypatch.setenv("HEADWATER_MAINTAIN_BY_STREAM", "never")


def wait_for(what: Callable[[], object], why: str) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not what():
        assert time.monotonic() < deadline, why
        time.sleep(0.1)


def runs_of(realm: Maintained) -> list[str]:
    return [record.operation for record in Runs(realm.backend, realm.clock).list() if record.status is RunStatus.DONE]


def samples(server: ServedStore) -> dict[tuple[str, ...], float]:
    text = httpx.get(f"{server.url}/metrics", timeout=10).text
    return {
        (sample.name, *sample.labels.values()): sample.value  # labels come in order of their names
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_a_server_maintains_its_store_once_for_all_its_workers_and_shows_what_was_done(lake: tuple[str, Maintained]) -> None:
    url, realm = lake
    before = len(realm.rows())
    with served(url, "--maintain", "6", "--workers", "2") as server, served(url, "--maintain", "6"):
        wait_for(lambda: "sweep" in runs_of(realm), "nothing was swept")
        assert httpx.get(f"{server.url}/feed/v1/default/pointers", timeout=10).status_code == httpx.codes.OK
        record = next(it for it in Runs(realm.backend, realm.clock).list() if it.operation == "sweep")
        wait_for(lambda: ("headwater_maintenance_runs_total", "sweep", "done") in samples(server), "no numbers")
        shown = samples(server)
    assert sorted(runs_of(realm)) == ["expire", "purge-realms", "sweep"], "each cycle is for all servers together"
    realm.check_states()
    purged = record.counts[realm.realm]["entry"].purged
    assert purged > 20 and len(realm.rows()) < before
    assert shown["headwater_maintenance_rows_total", "sweep", "default", "purged", "entry"] == purged
    assert shown["headwater_maintenance_runs_total", "sweep", "done"] == 1, "two workers read one number"
    assert shown["headwater_maintenance_last_success_timestamp_seconds", "sweep"] > time.time() - 600
    assert 0 <= shown["headwater_maintenance_fence_age_seconds", "default"] < 600
    assert shown["headwater_maintenance_floor_age_seconds", "default"] > 30 * 86_400


def process_of_maintenance(server: int) -> int | None:
    """The child of the server that runs the module."""
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if parent == server and b"headwater.wiring.maintenance_process" in words:
            return int(folder.name)
    return None


def is_there(process: int) -> bool:
    try:
        return (Path("/proc") / str(process) / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_maintenance_is_started_again_when_it_is_killed_and_ends_with_its_server_however_that_ends(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/lake.db"
    with served(url, "--maintain", "6") as server:
        assert server._process is not None
        main = server._process.pid
        wait_for(lambda: process_of_maintenance(main), "maintenance was not started")
        first = process_of_maintenance(main)
        assert first is not None
        os.kill(first, signal.SIGKILL)
        wait_for(lambda: process_of_maintenance(main) not in (None, first), "it was not started again")
        second = process_of_maintenance(main)
        assert second is not None
        server.stop()
        assert not is_there(second)
        server.start()
        main = server._process.pid
        wait_for(lambda: process_of_maintenance(main), "maintenance was not started")
        third = process_of_maintenance(main)
        assert third is not None
        os.kill(main, signal.SIGKILL)
        wait_for(lambda: not is_there(third), "maintenance has outlived its server")


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("--store", "memory://", "serve", "--dev", "--maintain", "6"), "memory"),
        (("--set", "retention=sometimes", "serve", "--dev", "--maintain", "6"), "retention"),
        (("serve", "--dev", "--maintain", "-1"), "maintain"),
        (("--set", "maintain_hours=-1", "serve", "--dev"), "maintain_hours"),
    ],
)
def test_invalid_input_is_refused_before_anything_is_served(
    arguments: tuple[str, ...], word: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert word in run_headwater(*arguments).error
