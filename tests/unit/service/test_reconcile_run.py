"""One run of a connector: what fails is recorded, waits longer each time, and is gone on with after a crash."""

from __future__ import annotations

import itertools
import math
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from headwater.persistence.coordination.cas_rows import cas_row, next_row
from headwater.persistence.coordination.work_leases import WorkLeases
from headwater.persistence.store import RealmKernel
from headwater.producer.access.writing import WriteMeta
from headwater.producer.commits.operations import Put
from headwater.producer.connectors.bounded_listing import ListingBounds
from headwater.producer.connectors.connector_records import Connector, Connectors, ConnectorStatus
from headwater.producer.connectors.destination import DestinationBranch, Seen
from headwater.producer.connectors.reconcile_jobs import Job, JobState, ReconcileJobs
from headwater.producer.connectors.source_positions import SourcePosition
from headwater.producer.connectors.source_spi import (
    AnySource,
    ConnectorSpec,
    SourceCommit,
    SourceContent,
    SourceOperation,
    SourceState,
)
from headwater.producer.content.content_types import Namespace
from headwater.schemas.change import Op
from headwater.schemas.errors import Corruption, CursorExpired, MaintenanceStopped
from headwater.service.reconciling.reconcile_run import LEASE_TYPE, ReconcileRun
from headwater.service.reconciling.source_factories import ReconcileOptions
from tests.support.fixtures.catalog_lake import embedded_url, open_lake
from tests.support.fixtures.polled_source import PolledSource


class OneSource:
    """Its own factory. Has nothing to tell, or breaks."""

    def __init__(self, fault: Exception | None = None) -> None:
        self._fault = fault

    def check_spec(self, spec: ConnectorSpec) -> None: ...

    def open(self, spec: ConnectorSpec, secret: bytes) -> AnySource:
        return self

    def check(self) -> None: ...

    def close(self) -> None: ...

    def changes(self, position: str) -> Iterator[SourceCommit]:
        if self._fault is not None:
            raise self._fault
        return iter(())

    def state(self) -> SourceState:
        return SourceState(position="0", version="v0", contents=iter(()))


@pytest.fixture
def kernel(tmp_path: Path) -> Iterator[RealmKernel]:
    with open_lake(embedded_url("memory", tmp_path)) as lake:
        yield lake.kernel


@pytest.fixture
def connector(kernel: RealmKernel) -> Connector:
    spec = ConnectorSpec(source="one", uri="one://", roots=("s3://lake/",))
    return Connectors(kernel, {"one": OneSource()}).create("up", spec, catalog="lake", meta=WriteMeta("tests")).value


def run(kernel: RealmKernel, connector: Connector, source: OneSource | PolledSource, *, now: bool = False) -> Job | None:
    options = ReconcileOptions()
    return ReconcileRun(kernel, connector, {"one": source}, options, stopping=threading.Event(), tags={}).run(now=now)


def test_nonsense_fails_its_job_and_the_next_turn_waits_longer_each_time(kernel: RealmKernel, connector: Connector) -> None:
    broken, waits = OneSource(ValueError("nonsense")), []
    for _ in range(3):
        job = run(kernel, connector, broken, now=True)
        assert job is not None and job.state is JobState.FAILED
        assert job.error.startswith("SOURCE_REFUSED") and "nonsense" in job.error
        waits.append(SourcePosition(kernel, connector.id).record.next_at - kernel.store.clock.now_micros())
    assert waits[0] < waits[1] < waits[2]
    assert run(kernel, connector, broken) is None, "its turn has not come"
    assert len(ReconcileJobs(kernel).list(connector.id)) == 3
    assert run(kernel, connector, OneSource(), now=True) is not None
    assert SourcePosition(kernel, connector.id).record.failed_runs == 0


def test_a_job_whose_process_died_is_continued(kernel: RealmKernel, connector: Connector) -> None:
    jobs = ReconcileJobs(kernel)
    asked = jobs.create(connector.name, connector.id, requested_by="ada")
    started = Job(**{name: getattr(asked, name) for name in asked.__struct_fields__} | {"state": JobState.RUNNING})
    jobs.change(asked.id, lambda _: started)
    done = run(kernel, connector, OneSource())
    assert done is not None and (done.id, done.state) == (asked.id, JobState.SUCCEEDED)


def test_a_connector_that_another_process_holds_is_left_alone(kernel: RealmKernel, connector: Connector) -> None:
    leases = WorkLeases(kernel.store.backend, kernel.store.clock, 30, type=LEASE_TYPE, realm=kernel.realm)
    held = leases.take(connector.id, "another", leases.look(connector.id))
    assert held is not None
    assert run(kernel, connector, OneSource(), now=True) is None
    held.release()
    assert run(kernel, connector, OneSource(), now=True) is not None


class Endless(OneSource):
    """Commits one namespace after the other, and lets somebody act in between."""

    def __init__(self, between: Callable[[int], None]) -> None:
        super().__init__()
        self._between = between
        self.given = 0

    def changes(self, position: str) -> Iterator[SourceCommit]:
        for number in range(int(position or 0) + 1, 100):
            self._between(number)
            content = SourceContent(key=(f"n{number}",), id=str(number), type="NAMESPACE", value={"properties": {}})
            put = SourceOperation(op=Op.PUT, key=content.key, content=content)
            self.given = number
            yield SourceCommit(position=str(number), version=f"v{number}", operations=(put,))


def namespaces(kernel: RealmKernel, connector: Connector) -> int:
    destination = DestinationBranch(kernel, connector)
    return len(destination.everything(destination.log.head()))


def run_slowly(
    kernel: RealmKernel, connector: Connector, source: OneSource | PolledSource, *, turn_seconds: float = math.inf
) -> Job | None:
    """Each look at the clock is three seconds later."""
    clock = itertools.count(0.0, 3.0)
    options, stopping = ReconcileOptions(), threading.Event()
    return ReconcileRun(
        kernel,
        connector,
        {"one": source},
        options,
        stopping=stopping,
        tags={},
        turn_seconds=turn_seconds,
        monotonic=lambda: next(clock),
    ).run(now=True)


@pytest.mark.parametrize("act", ["pause", "remove"])
def test_a_connector_that_is_paused_or_removed_stops_amid_a_run(kernel: RealmKernel, connector: Connector, act: str) -> None:
    def between(number: int) -> None:
        records = Connectors(kernel, {"one": OneSource()})
        if number == 5 and act == "pause":
            records.update("up", status=ConnectorStatus.PAUSED, meta=WriteMeta("tests"))
        elif number == 5:
            records.delete("up", meta=WriteMeta("tests"))
            SourcePosition(kernel, connector.id).forget()

    ReconcileJobs(kernel).create(connector.name, connector.id, requested_by="ada")
    source = Endless(between)
    job = run_slowly(kernel, connector, source)
    assert source.given == 5
    if act == "pause":
        assert job is not None and job.state is JobState.CANCELLED
    assert namespaces(kernel, connector) == 4
    position = kernel.store.backend.read_mutable(kernel.realm, "connector-position", connector.id)
    assert (position is None) == (act == "remove"), "nothing is left of a connector that is gone"


def test_a_removed_connector_commits_nothing_more(kernel: RealmKernel, connector: Connector) -> None:
    Connectors(kernel, {"one": OneSource()}).delete("up", meta=WriteMeta("tests"))
    with pytest.raises(MaintenanceStopped, match="removed"):
        DestinationBranch(kernel, connector).commit([Put(("late",), Namespace())], Seen(version="late"), "late")


def test_a_run_frees_its_slot_after_its_turn_and_the_next_continues_it(kernel: RealmKernel, connector: Connector) -> None:
    source = Endless(lambda number: None)
    turns = 0
    while run_slowly(kernel, connector, source, turn_seconds=60.0) is None:
        turns += 1
        (job,) = ReconcileJobs(kernel).list(connector.id)
        assert job.state is JobState.RUNNING
        assert job.counters.committed == namespaces(kernel, connector)
    (job,) = ReconcileJobs(kernel).list(connector.id)
    assert (job.state, job.counters.committed) == (JobState.SUCCEEDED, 99)
    assert turns > 2


class Listing(OneSource):
    """A log that does not reach back and a state that never ends."""

    def changes(self, position: str) -> Iterator[SourceCommit]:
        raise CursorExpired("the log begins later.", field="position")

    def state(self) -> SourceState:
        return SourceState(position="7", version="v7", contents=map(namespace_named, itertools.count()))


def namespace_named(number: int) -> SourceContent:
    return SourceContent(key=(f"n{number}",), id="", type="NAMESPACE", value={"properties": {}})


class EndlessNames(PolledSource):
    def namespaces(self) -> Iterator[SourceContent]:
        return map(namespace_named, itertools.count())


@pytest.mark.parametrize("source", [Listing(), EndlessNames()], ids=["logged", "polled"])
def test_a_source_that_lists_for_ever_fails_and_fills_no_memory(
    kernel: RealmKernel, connector: Connector, source: OneSource | PolledSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(ListingBounds.__init__.__kwdefaults__, "entries_max", 1_000)
    job = run(kernel, connector, source, now=True)
    assert job is not None and job.state is JobState.FAILED
    assert job.error.startswith("SOURCE_REFUSED") and "more than 1000 entries" in job.error
    assert namespaces(kernel, connector) == 0


@pytest.mark.parametrize("source", [Listing(), EndlessNames()], ids=["logged", "polled"])
def test_a_listing_can_be_cancelled(kernel: RealmKernel, connector: Connector, source: OneSource | PolledSource) -> None:
    jobs = ReconcileJobs(kernel)
    asked = jobs.create(connector.name, connector.id, requested_by="ada")
    jobs.change(asked.id, lambda one: msgspec.structs.replace(one, cancel_requested=True))
    job = run_slowly(kernel, connector, source)
    assert job is not None and job.state is JobState.CANCELLED


class Whole(OneSource):
    """Its log has expired, and its state takes many looks at the clock to read."""

    def changes(self, position: str) -> Iterator[SourceCommit]:
        if not position:
            raise CursorExpired("the log begins later.", field="position")
        return iter(())

    def state(self) -> SourceState:
        names = ((f"n{number}",) for number in range(100))
        contents = (SourceContent(key=key, id=key[0], type="NAMESPACE", value={"properties": {}}) for key in names)
        return SourceState(position="7", version="v7", contents=contents)


def test_a_state_that_takes_longer_to_read_than_a_turn_is_still_taken(kernel: RealmKernel, connector: Connector) -> None:
    """Every turn would begin again with it."""
    job = run_slowly(kernel, connector, Whole(), turn_seconds=60.0)
    assert job is not None and job.state is JobState.SUCCEEDED
    assert namespaces(kernel, connector) == 100


def test_a_full_rescan_of_a_polled_source_that_takes_longer_than_a_turn_ends(kernel: RealmKernel, connector: Connector) -> None:
    source = PolledSource()
    for number in range(100):
        source.create(f"t{number}")
    ReconcileJobs(kernel).create(connector.name, connector.id, requested_by="ada", full_rescan=True)
    job = run_slowly(kernel, connector, source, turn_seconds=60.0)
    assert job is not None and (job.state, job.counters.observed) == (JobState.SUCCEEDED, 100)


def test_a_job_with_a_scope_is_gone_on_with_in_the_next_turn(kernel: RealmKernel, connector: Connector) -> None:
    source, turns = PolledSource(), 1
    for number in range(100):
        source.create(f"t{number:02}")
        source.create(f"other.t{number:02}")
    ReconcileJobs(kernel).create(connector.name, connector.id, requested_by="ada", scope=(("db",),))
    while (job := run_slowly(kernel, connector, source, turn_seconds=60.0)) is None:
        turns += 1
    assert job.state is JobState.SUCCEEDED and turns > 2
    assert job.counters.observed == 100, "each once over all turns"
    assert namespaces(kernel, connector) == 101
    position = SourcePosition(kernel, connector.id).record
    assert (position.polls, position.listed_to, position.next_at) == (0, (), 0), "the turns of everything are as before"


def test_a_plug_in_with_a_log_refuses_a_scope_when_the_job_runs(kernel: RealmKernel, connector: Connector) -> None:
    ReconcileJobs(kernel).create(connector.name, connector.id, requested_by="ada", scope=(("db",),))
    job = run(kernel, connector, Whole())
    assert job is not None and job.state is JobState.FAILED
    assert job.error.startswith("INVALID") and "takes no scope" in job.error
    assert namespaces(kernel, connector) == 0


def test_a_job_that_cannot_be_read_is_set_aside(kernel: RealmKernel, connector: Connector) -> None:
    jobs, now = ReconcileJobs(kernel), kernel.store.clock.now_micros()
    row = next_row("reconcile-job", f"{now:016x}-bad", None, b"\xc1nonsense", now, expires_at=now + 10**9)
    assert cas_row(kernel.store.backend, kernel.realm, None, row, kernel.store.clock)
    asked = jobs.create(connector.name, connector.id, requested_by="ada")
    assert [one.id for one in jobs.list()] == [asked.id]
    assert jobs.waiting() == {connector.id}
    done = run(kernel, connector, OneSource())
    assert done is not None and (done.id, done.state) == (asked.id, JobState.SUCCEEDED)
    with pytest.raises(Corruption):
        jobs.get(row.key)


def test_an_unrequested_turn_that_changes_nothing_leaves_no_job(kernel: RealmKernel, connector: Connector) -> None:
    assert run(kernel, connector, OneSource(), now=True) is not None
    assert ReconcileJobs(kernel).list(connector.id) == []
