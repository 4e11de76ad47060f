"""Metrics and spans: values that are right, and nothing that is loaded or slowed where nobody observes."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import msgspec
import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client import CollectorRegistry, generate_latest

import headwater
from headwater import Delete, IcebergTable, Metrics, Namespace, Put, Spans
from headwater.embedded import CatalogHandle, Headwater
from headwater.persistence.commit.commit_outcome import CommitOutcome
from headwater.persistence.commit.committer import Committer
from headwater.persistence.commit.observer import outcome_of
from headwater.persistence.log.log_entry import ENTRY
from headwater.persistence.reading.pointer_log import PointerLog
from headwater.producer.commits.catalog_commit import CatalogCommit
from headwater.producer.commits.commit_meta import CommitMeta
from headwater.schemas.errors import CommitConflict, LaneFull, ObjectNotFound
from tests.support.faults.faulty_backend import FaultyBackend, unavailable, unknown


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def engine(registry: CollectorRegistry, exporter: InMemorySpanExporter) -> Iterator[Headwater]:
    """Values are read when it is closed: an answer reaches its caller before those who observe."""
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    ticks = iter(range(10_000))
    metrics = Metrics(registry, clock_seconds=lambda: next(ticks) / 1_000)
    with headwater.open("memory://", create=True, observers=[metrics, Spans(provider.get_tracer("test"))]) as engine:
        yield engine


@pytest.fixture
def lake(engine: Headwater) -> CatalogHandle:
    return engine.ensure_realm().ensure_catalog("lake")


def value(registry: CollectorRegistry, name: str, **labels: str) -> float:
    return registry.get_sample_value(name, {"realm": "default", **labels}) or 0.0


def of_cache(registry: CollectorRegistry, name: str) -> float:
    found = registry.get_sample_value(name)
    assert found is not None
    return found


def spans(exporter: InMemorySpanExporter, pointer: str) -> list[ReadableSpan]:
    finished = exporter.get_finished_spans()
    return [span for span in finished if (span.attributes or {}).get("headwater.pointer") == pointer]


# ── metrics ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_commits_conflicts_and_answers_are_counted(engine: Headwater, lake: CatalogHandle, registry: CollectorRegistry) -> None:
    main, before = lake.branch(), value(registry, "headwater_commits_total")
    requests = "headwater_commit_requests_total"
    created = value(registry, requests, kind="create", outcome="committed")
    main.commit([Put(("a",), Namespace())], request_id="once")
    main.commit([Put(("a",), Namespace())], request_id="once")
    for _ in range(2):
        with pytest.raises(CommitConflict):
            main.commit([Delete(("b",))])
    lake.create_branch("dev").commit([Put(("d",), Namespace())])
    lake.merge("dev")
    lake.merge("dev")
    engine.close()
    assert value(registry, "headwater_commits_total") - before == 4, "commit, create, commit, merge"
    assert value(registry, requests, kind="commit", outcome="replayed") == 1
    assert value(registry, requests, kind="commit", outcome="commit_conflict") == 2
    assert value(registry, requests, kind="merge", outcome="committed") == 1
    assert value(registry, requests, kind="merge", outcome="nothing_to_do") == 1
    assert value(registry, requests, kind="create", outcome="committed") - created == 1, "dev"
    assert value(registry, "headwater_commit_conflicts_total", kind="commit") == 2
    assert value(registry, "headwater_commit_seconds_count", kind="merge") == 2
    assert value(registry, "headwater_commit_seconds_sum", kind="merge") >= 0.002, "one tick each, and those of reads"


def test_a_batch_is_one_cas_of_many_entries(engine: Headwater, lake: CatalogHandle, registry: CollectorRegistry) -> None:
    kernel, main = lake.realm.kernel, lake.branch()
    sent, batches = (value(registry, name) for name in ("headwater_cas_sent_total", "headwater_batch_entries_count"))
    entries = value(registry, "headwater_batch_entries_sum")
    go_on = threading.Event()

    def hold(*_: object) -> None:
        assert go_on.wait(30)

    kernel.on_moved(hold)
    requests = [CatalogCommit(kernel, [Put((str(n),), Namespace())], CommitMeta("ada")) for n in range(20)]
    futures = [kernel.committer.submit(main.pointer, request) for request in requests]
    go_on.set()
    assert {future.result().replayed for future in futures} == {False}
    engine.close()
    assert value(registry, "headwater_batch_entries_sum") - entries == 20
    assert value(registry, "headwater_batch_entries_count") - batches == value(registry, "headwater_cas_sent_total") - sent <= 2
    assert value(registry, "headwater_batch_entries_bucket", le="8.0") < value(registry, "headwater_batch_entries_count")


def test_faults_of_the_store_are_counted(engine: Headwater, lake: CatalogHandle, registry: CollectorRegistry) -> None:
    main, context = lake.branch(), lake.realm.kernel.committer._context
    faulty = FaultyBackend(context.backend)
    lake.realm.kernel.committer._context = msgspec.structs.replace(context, backend=faulty)
    lake.realm.kernel.committer._lanes.clear()
    faults = [unavailable("commit"), unknown("commit", landed=True), unknown("commit", landed=False)]
    for n, fault in enumerate(faults):
        faulty.arm(fault)
        main.commit([Put((str(n),), Namespace())])
    engine.close()
    assert [fault.fired for fault in faults] == [1, 1, 1]
    assert value(registry, "headwater_commit_retries_total") == 1
    assert value(registry, "headwater_cas_unknown_total") == 2
    assert value(registry, "headwater_cas_resent_total") == 1


def test_a_lost_race_is_counted(tmp_path: Path, registry: CollectorRegistry) -> None:
    url = f"sqlite:///{tmp_path}/lake.db"
    with headwater.open(url, create=True, observers=[Metrics(registry)]) as ours, headwater.open(url) as theirs:
        mine = ours.ensure_realm().ensure_catalog("lake").branch()
        mine.commit([Put(("a",), Namespace())])
        theirs.realm().catalog("lake").branch().commit([Put(("b",), Namespace())])
        mine.commit([Put(("c",), Namespace())])
    assert value(registry, "headwater_cas_lost_total") == value(registry, "headwater_commit_retries_total") == 1


def test_the_cache_is_counted(engine: Headwater, lake: CatalogHandle, registry: CollectorRegistry) -> None:
    lake.branch().commit([Put(("db",), Namespace()), Put(("db", "t"), IcebergTable("s3://t"))])
    engine.store.cache.clear()
    assert len(list(lake.snapshot("main"))) == 2
    misses = of_cache(registry, "headwater_cache_misses_total")
    hits = of_cache(registry, "headwater_cache_hits_total")
    assert len(list(lake.snapshot("main"))) == 2
    assert misses > 0 and of_cache(registry, "headwater_cache_misses_total") == misses
    assert of_cache(registry, "headwater_cache_hits_total") > hits
    assert of_cache(registry, "headwater_cache_bytes") == engine.store.cache.bytes_used > 0


def test_everything_can_be_scraped(lake: CatalogHandle, registry: CollectorRegistry) -> None:
    text = generate_latest(registry).decode()
    for name in ("commits_total", "cas_sent_total", "commit_retries_total", "batch_entries_bucket", "cache_hits_total"):
        assert f"headwater_{name}" in text


def test_reads_are_timed_and_counted(engine: Headwater, lake: CatalogHandle, registry: CollectorRegistry) -> None:
    main, rows = lake.branch(), "headwater_read_rows_total"
    for name in "abc":
        main.commit([Put((name,), Namespace())])
    log = PointerLog(lake.realm.kernel, main.pointer)
    before = {read: value(registry, rows, read=read) for read in ("pointer", "page", "objects")}
    pages = value(registry, "headwater_read_seconds_count", read="page")
    assert len(log.page(1, 10).entries) == 3
    after = {read: value(registry, rows, read=read) for read in before}
    assert after["pointer"] - before["pointer"] == 1 and after["page"] - before["page"] == 3
    assert after["objects"] == before["objects"], "the cache has them"
    assert value(registry, "headwater_read_seconds_count", read="page") - pages == 1
    engine.store.cache.clear()
    log.page(1, 10)
    assert value(registry, rows, read="objects") > after["objects"]
    with pytest.raises(ObjectNotFound):
        lake.realm.kernel.objects.fetch(ENTRY, 1)
    assert value(registry, "headwater_read_failures_total", read="objects") == 1


# ── spans ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_spans_name_the_operation_and_its_outcome(
    engine: Headwater, lake: CatalogHandle, exporter: InMemorySpanExporter
) -> None:
    done = lake.branch().commit([Put(("a",), Namespace())], request_id="r1")
    lake.create_branch("dev")
    lake.merge("dev")
    with pytest.raises(CommitConflict):
        lake.branch().commit([Delete(("b",))])
    engine.close()
    made, merged, refused = spans(exporter, lake.branch().pointer)[-3:]
    assert [span.name for span in (made, merged, refused)] == ["headwater.commit", "headwater.merge", "headwater.commit"]
    assert made.attributes is not None and made.attributes["headwater.entry_id"] == done.commit_id
    assert made.attributes["headwater.request_id"] == "r1" and made.attributes["headwater.seq"] == done.seq
    assert merged.attributes is not None and merged.attributes["headwater.outcome"] == "nothing_to_do"
    assert not refused.status.is_ok and refused.events[0].name == "exception"


def test_a_span_belongs_to_the_span_that_its_caller_is_in(
    engine: Headwater, lake: CatalogHandle, exporter: InMemorySpanExporter
) -> None:
    provider = TracerProvider()
    with provider.get_tracer("caller").start_as_current_span("request") as outer:
        lake.branch().commit([Put(("a",), Namespace())])
    engine.close()
    inner = spans(exporter, lake.branch().pointer)[-1]
    assert inner.parent is not None and inner.parent.span_id == outer.get_span_context().span_id


# ── refusals before the lane ────────────────────────────────────────────────────────────────────────────────


def test_a_request_that_the_lane_does_not_take_is_answered_to_observers_too(
    lake: CatalogHandle, registry: CollectorRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headwater.persistence.commit.lane.WAITING_REQUESTS_MAX", 0)
    with pytest.raises(LaneFull):
        lake.branch().commit([Put(("a",), Namespace())])
    assert value(registry, "headwater_commit_requests_total", kind="commit", outcome="lane_full") == 1


def test_every_end_of_a_request_has_a_name() -> None:
    cancelled, broken = Future[CommitOutcome](), Future[CommitOutcome]()
    cancelled.cancel()
    cancelled.set_running_or_notify_cancel()
    broken.set_exception(ValueError("a bug"))
    assert (outcome_of(cancelled), outcome_of(broken)) == ("cancelled", "error")


# ── off ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_without_observability_the_plain_committer_is_used() -> None:
    with headwater.open("memory://", create=True) as engine:
        assert type(engine.store.system.committer) is Committer


def test_observability_imports_nothing_while_it_is_disabled() -> None:
    code = """
import sys, headwater
with headwater.open("memory://", create=True) as engine:
    lake = engine.ensure_realm().ensure_catalog("lake")
    lake.branch().commit([headwater.Put(("a",), headwater.Namespace())])
loaded = {name for name in sys.modules if name.split(".")[0] in ("prometheus_client", "opentelemetry")}
print(loaded | {name for name in sys.modules if "observed_committer" in name})
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "set()"


def test_reads_are_spans_inside_of_the_callers_and_nowhere_else(
    engine: Headwater, lake: CatalogHandle, exporter: InMemorySpanExporter
) -> None:
    main = lake.branch()
    main.commit([Put(("a",), Namespace())])
    log = PointerLog(lake.realm.kernel, main.pointer)
    log.page(0, 10)
    assert not reads(exporter)
    engine.store.cache.clear()
    with TracerProvider().get_tracer("caller").start_as_current_span("caller") as caller:
        log.page(0, 10)
    found = {span.name: span for span in reads(exporter)}
    assert set(found) == {"headwater.read.pointer", "headwater.read.objects", "headwater.read.page"}
    page = found["headwater.read.page"]
    assert page.parent is not None and page.parent.span_id == caller.get_span_context().span_id
    assert (page.attributes or {})["headwater.rows"] == 2 and (page.attributes or {})["headwater.realm"] == "default"


def reads(exporter: InMemorySpanExporter) -> list[ReadableSpan]:
    return [span for span in exporter.get_finished_spans() if span.name.startswith("headwater.read.")]
