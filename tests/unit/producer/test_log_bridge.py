"""A source's log is committed once and in order, whichever step a crash comes at."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headwater.persistence.store import RealmKernel
from headwater.producer.access.writing import WriteMeta
from headwater.producer.connectors.connector_records import Connector, Connectors
from headwater.producer.connectors.destination import DestinationBranch
from headwater.producer.connectors.log_bridge import LogBridge
from headwater.producer.connectors.reconcile_jobs import Tally
from headwater.producer.connectors.source_positions import PositionRecord, SourcePosition
from headwater.producer.connectors.source_spi import (
    AnySource,
    ConnectorSpec,
    SourceCommit,
    SourceContent,
    SourceOperation,
    SourceState,
)
from headwater.schemas.change import KeyPath, Op
from headwater.schemas.errors import CommitConflict, CursorExpired, CursorGone, CursorReset, LocationForbidden
from tests.support.fixtures.catalog_lake import embedded_url, open_lake

META = WriteMeta("tests")


class ListedLog:
    """A source whose log is a list."""

    def __init__(self, gone: type[CursorGone] = CursorReset) -> None:
        self.gone = gone
        self.commits: list[SourceCommit] = []
        self.contents: dict[KeyPath, SourceContent] = {}
        self.floor = 0

    def commit(self, *operations: SourceOperation) -> None:
        number = str(len(self.commits) + 1)
        self.commits.append(SourceCommit(position=number, version=f"v{number}", message=number, operations=operations))
        for operation in operations:
            if operation.op is Op.DELETE:
                del self.contents[operation.key]
            elif operation.content is not None:
                self.contents[operation.key] = operation.content

    def check(self) -> None: ...

    def close(self) -> None: ...

    def changes(self, position: str) -> Iterator[SourceCommit]:
        start = int(position or 0)
        if start < self.floor:
            raise self.gone("the log begins later.")
        yield from self.commits[start:]

    def state(self) -> SourceState:
        newest = self.commits[-1]
        return SourceState(position=newest.position, version=newest.version, contents=iter(list(self.contents.values())))


class AnyFactory:
    def check_spec(self, spec: ConnectorSpec) -> None: ...

    def open(self, spec: ConnectorSpec, secret: bytes) -> AnySource:
        raise NotImplementedError


def content(name: str, version: int, id: str | None = None) -> SourceContent:
    value = {"metadata_location": f"s3://lake/{id or name}/{version}.json"}
    return SourceContent(key=("db", name), id=id or name, type="ICEBERG_TABLE", value=value)


def put(name: str, version: int, id: str | None = None) -> SourceOperation:
    return SourceOperation(op=Op.PUT, key=("db", name), content=content(name, version, id))


def delete(name: str) -> SourceOperation:
    return SourceOperation(op=Op.DELETE, key=("db", name))


@pytest.fixture
def kernel(tmp_path: Path) -> Iterator[RealmKernel]:
    with open_lake(embedded_url("memory", tmp_path)) as lake:
        yield lake.kernel


@pytest.fixture
def connector(kernel: RealmKernel) -> Connector:
    spec = ConnectorSpec(source="listed", uri="list://", roots=("s3://lake/",))
    made = Connectors(kernel, {"listed": AnyFactory()}).create("up", spec, catalog="lake", path=("bridged",), meta=META)
    return made.value


class Crash(Exception):
    pass


class CrashingSteps:
    """Counts the writes of a bridge and crashes before or after one of them."""

    def __init__(self, at: int) -> None:
        self._at = at
        self._steps = itertools.count()
        self.fired = False

    def around(self, act: Callable[..., None]) -> Callable[..., None]:
        def run(*arguments: object) -> None:
            self._step()
            act(*arguments)
            self._step()

        return run

    def _step(self) -> None:
        if next(self._steps) == self._at:
            self.fired = True
            raise Crash


def bridge(kernel: RealmKernel, connector: Connector, source: ListedLog, steps: CrashingSteps | None = None) -> Tally:
    position, destination, tally = SourcePosition(kernel, connector.id), DestinationBranch(kernel, connector), Tally()
    if steps is not None:
        position.move = steps.around(position.move)  # type: ignore[method-assign]
        destination.commit = steps.around(destination.commit)  # type: ignore[method-assign]
    LogBridge(
        kernel,
        connector,
        source,
        position,
        tally,
        check_content=check_roots,
        keep_going=lambda: None,
        destination=destination,
    ).run()
    return tally


def check_roots(content: SourceContent) -> None:
    if not str(content.value.get("metadata_location", "s3://lake/")).startswith("s3://lake/"):
        raise LocationForbidden("elsewhere.")


def versions(kernel: RealmKernel, connector: Connector) -> list[str]:
    """As the destination's log tells them, without the commit that created the branch."""
    entries = DestinationBranch(kernel, connector).log.forward()
    return [one.entry.headers["headwater.observed.version"] for one in entries if one.entry.seq > 1]


def tables(kernel: RealmKernel, connector: Connector) -> dict[KeyPath, str]:
    destination = DestinationBranch(kernel, connector)
    held = destination.everything(destination.log.head())
    return {destination.source_key(key): one.value["metadata_location"] for key, one in held.items() if len(key) == 3}


def history() -> ListedLog:
    source = ListedLog()
    source.commit(put("a", 1))
    source.commit(put("b", 1), put("a", 2))
    source.commit(delete("a"), put("renamed", 2, id="a"))
    source.commit(put("b", 2))
    source.commit(delete("b"))
    source.commit(put("b", 3, id="another b"))
    return source


STEPS = 26
"""Six commits, each with its row, and the row at the end: before and after each write."""


@pytest.mark.parametrize("at", range(STEPS))
def test_every_commit_lands_once_and_in_order_at_whichever_step_a_crash_happens(
    kernel: RealmKernel, connector: Connector, at: int
) -> None:
    source, steps = history(), CrashingSteps(at)
    try:
        bridge(kernel, connector, source, steps)
    except Crash:
        bridge(kernel, connector, source)
    assert steps.fired
    assert versions(kernel, connector) == [one.version for one in source.commits]
    assert tables(kernel, connector) == {key: one.value["metadata_location"] for key, one in source.contents.items()}
    record = SourcePosition(kernel, connector.id).record
    assert record == PositionRecord(position="6")


def test_a_crash_at_every_step_of_every_run_repeats_and_loses_nothing(kernel: RealmKernel, connector: Connector) -> None:
    source, crashes = history(), 0
    for at in itertools.cycle((1, 2, 3)):
        try:
            bridge(kernel, connector, source, CrashingSteps(at))
            break
        except Crash:
            crashes += 1
    assert crashes > 4
    assert versions(kernel, connector) == [one.version for one in source.commits]


def test_a_rename_keeps_the_content_id(kernel: RealmKernel, connector: Connector) -> None:
    source = ListedLog()
    source.commit(put("a", 1))
    bridge(kernel, connector, source)
    destination = DestinationBranch(kernel, connector)
    before = destination.everything(destination.log.head())["bridged", "db", "a"].content_id
    source.commit(delete("a"), put("z", 1, id="a"))
    tally = bridge(kernel, connector, source)
    held = destination.everything(destination.log.head())
    assert tally.counters.renamed == 1
    assert ("bridged", "db", "a") not in held
    assert held["bridged", "db", "z"].content_id == before


def test_a_table_recreated_under_its_name_gets_another_id(kernel: RealmKernel, connector: Connector) -> None:
    source = ListedLog()
    source.commit(put("a", 1))
    bridge(kernel, connector, source)
    destination = DestinationBranch(kernel, connector)
    before = destination.everything(destination.log.head())["bridged", "db", "a"].content_id
    source.commit(put("a", 1, id="re-created"))
    bridge(kernel, connector, source)
    assert destination.everything(destination.log.head())["bridged", "db", "a"].content_id != before


@pytest.mark.parametrize("gone", [CursorReset, CursorExpired])
def test_a_log_that_does_not_reach_back_becomes_one_commit_with_a_typed_gap(
    kernel: RealmKernel, connector: Connector, gone: type[CursorGone]
) -> None:
    source = ListedLog(gone)
    source.commit(put("a", 1))
    bridge(kernel, connector, source)
    source.commit(put("a", 2))
    source.commit(put("b", 1))
    source.floor = 2
    tally = bridge(kernel, connector, source)
    assert tally.counters.gaps == 1
    assert versions(kernel, connector) == ["v1", "v3"]
    newest = DestinationBranch(kernel, connector).log.head().newest.entry
    assert "does not reach back" in newest.headers["headwater.observed.gap"]
    source.commit(delete("a"))
    bridge(kernel, connector, source)
    assert versions(kernel, connector) == ["v1", "v3", "v4"]


def test_files_outside_of_the_roots_are_counted_and_left_out(kernel: RealmKernel, connector: Connector) -> None:
    source = ListedLog()
    elsewhere = SourceContent(key=("db", "x"), id="x", type="ICEBERG_TABLE", value={"metadata_location": "s3://other/1.json"})
    source.commit(put("a", 1), SourceOperation(op=Op.PUT, key=("db", "x"), content=elsewhere))
    tally = bridge(kernel, connector, source)
    assert [one.code for one in tally.failures] == ["LOCATION_FORBIDDEN"]
    assert tables(kernel, connector) == {("db", "a"): "s3://lake/a/1.json"}


def test_nothing_new_writes_nothing(kernel: RealmKernel, connector: Connector) -> None:
    source = history()
    bridge(kernel, connector, source)
    before = DestinationBranch(kernel, connector).log.head().newest.entry_id
    row = kernel.store.backend.read_mutable(kernel.realm, "connector-position", connector.id)
    bridge(kernel, connector, source)
    assert DestinationBranch(kernel, connector).log.head().newest.entry_id == before
    assert kernel.store.backend.read_mutable(kernel.realm, "connector-position", connector.id) == row


@pytest.mark.parametrize("at", range(8))
def test_a_process_that_slept_before_its_commit_undoes_nothing_of_its_successor(
    kernel: RealmKernel, connector: Connector, at: int
) -> None:
    """⚠ It was paused behind its last look at the lease, and its commit comes after all of its successor's."""
    source = history()
    source.commit(put("b", 4, id="a third b"))  # two commits here: a delete, then a put
    destination, tally, numbers = DestinationBranch(kernel, connector), Tally(), itertools.count()
    commit, slept = destination.commit, list[int]()

    def late(*arguments: object) -> None:
        if next(numbers) == at:
            slept.append(at)
            bridge(kernel, connector, source)
            with contextlib.suppress(CommitConflict):
                commit(*arguments)  # type: ignore[arg-type]
            raise Crash  # the lease is lost

    def either(*arguments: object) -> None:
        late(*arguments)
        commit(*arguments)  # type: ignore[arg-type]

    destination.commit = either  # type: ignore[method-assign, assignment]
    first = LogBridge(
        kernel,
        connector,
        source,
        SourcePosition(kernel, connector.id),
        tally,
        check_content=check_roots,
        keep_going=lambda: None,
        destination=destination,
    )
    with pytest.raises(Crash):
        first.run()
    assert slept == [at]
    assert tables(kernel, connector) == {key: one.value["metadata_location"] for key, one in source.contents.items()}
    seen = [version for version, _ in itertools.groupby(versions(kernel, connector))]
    assert seen == [one.version for one in source.commits]
