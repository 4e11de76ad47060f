"""Shares of a walk on workers: only a worker with the identifiers of the driver marks anything."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import pyarrow as pa
import pytest

from headwater.persistence.backends import open_backend
from headwater.schemas.errors import MaintenanceRefused
from headwater.streaming.reachability import retained_identifiers as known
from headwater.streaming.reachability.fence import fence_realm
from headwater.streaming.reachability.retained_identifiers import Identifiers, Marks, WalkedRealm, installed_identifiers
from headwater.streaming.spark_jobs.spark_walk import grouped, marked_by_task
from tests.support.fixtures.maintained import Maintained
from tests.support.models.commit_harness import REALM


class OfMemos:
    type = "content"
    covers = frozenset({"memo"})

    def identify(self, realm: WalkedRealm, object_id: int, marks: Marks) -> None:
        marks.mark("memo", [object_id + 1])


class OfReports:
    covers = frozenset({"report"})

    def identify(self, realm: WalkedRealm, marks: Marks) -> None:
        marks.mark("report", [1])


class OfBills(OfReports):
    covers = frozenset({"bill"})


def marked(folder: Path, driver: Identifiers, worker: Identifiers) -> set[int]:
    url = f"sqlite:///{folder}/lake.db"
    backend = open_backend(url)
    backend.create_schema()
    realm = Maintained(backend, seed=3)
    for _ in range(10):
        realm.step()
    spans = fence_realm(backend, REALM, realm.clock).spans
    tasks = grouped(list(driver.shares(spans, 5)), 5)
    marking = marked_by_task(url, REALM, spans, tasks, lambda: worker, driver.signature())
    numbers = pa.RecordBatch.from_arrays([pa.array(range(len(tasks)), pa.int64())], names=["id"])
    ids = {object_id for batch in marking([numbers]) for object_id in batch.column(0).to_pylist()}
    assert ids == set(driver.retained(backend, REALM, spans))
    return ids


def test_workers_with_the_same_identifiers_mark_what_one_process_does(tmp_path: Path) -> None:
    both = Identifiers([OfReports(), OfBills()], [OfMemos()])
    assert 1 in marked(tmp_path, both, Identifiers([OfReports(), OfBills()], [OfMemos()]))


@pytest.mark.parametrize(
    "worker",
    [
        Identifiers([OfReports(), OfBills()]),
        Identifiers([OfReports()], [OfMemos()]),
        Identifiers([OfBills(), OfReports()], [OfMemos()]),
        Identifiers(),
    ],
)
def test_a_worker_with_other_identifiers_marks_nothing_and_the_sweep_is_refused(tmp_path: Path, worker: Identifiers) -> None:
    """A plug-in that is installed beside the driver alone: what it would have marked there would be deleted."""
    with pytest.raises(MaintenanceRefused, match="other identifiers"):
        marked(tmp_path, Identifiers([OfReports(), OfBills()], [OfMemos()]), worker)


def test_installed_identifiers_have_one_order_wherever_they_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [
        metadata.EntryPoint(name, f"{__name__}:{cls.__name__}", known.REALM_GROUP)
        for name, cls in (("reports", OfReports), ("bills", OfBills))
    ]
    monkeypatch.setattr(metadata.EntryPoint, "load", lambda self: globals()[self.value.partition(":")[2]])
    signatures = []
    for order in (found, found[::-1]):
        monkeypatch.setattr(metadata, "entry_points", lambda group, order=order: order if group == known.REALM_GROUP else [])
        signatures.append(installed_identifiers().signature())
    assert signatures[0] == signatures[1] and len(signatures[0]) == 3
