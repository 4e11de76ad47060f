"""One run of a connector: what fails is recorded, waits longer each time, and is gone on with after a crash."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.persistence.coordination.work_leases import WorkLeases
from headwater.persistence.store import RealmKernel
from headwater.producer.access.writing import WriteMeta
from headwater.producer.connectors.connector_records import Connector, Connectors
from headwater.producer.connectors.reconcile_jobs import Job, JobState, ReconcileJobs
from headwater.producer.connectors.source_positions import SourcePosition
from headwater.producer.connectors.source_spi import AnySource, ConnectorSpec, SourceCommit, SourceState
from headwater.service.reconciling.reconcile_run import LEASE_TYPE, ReconcileRun
from headwater.service.reconciling.source_factories import ReconcileOptions
from tests.support.fixtures.catalog_lake import embedded_url, open_lake


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


def run(kernel: RealmKernel, connector: Connector, source: OneSource, *, now: bool = False) -> Job | None:
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


def test_a_job_whose_process_died_is_gone_on_with(kernel: RealmKernel, connector: Connector) -> None:
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


def test_a_turn_that_nobody_asked_for_and_that_changes_nothing_leaves_no_job(kernel: RealmKernel, connector: Connector) -> None:
    assert run(kernel, connector, OneSource(), now=True) is not None
    assert ReconcileJobs(kernel).list(connector.id) == []
