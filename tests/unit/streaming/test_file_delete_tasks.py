"""What a worker of Spark does with a list of files: it deletes while lease, intent and claim hold, and tells what it did."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, cast

import msgspec
import pyarrow as pa
import pytest

from headwater.persistence.coordination.removal_intents import RemovalIntent, RemovalIntents, RemovalPhase
from headwater.persistence.coordination.work_leases import HeldLease, WorkLeases
from headwater.persistence.store import Store, open_store
from headwater.streaming.files.deleted_keys import keep_keys
from headwater.streaming.files.spark.delete_tasks import DeletePlan, DeleteResult, deleting, merged
from headwater.streaming.files.spark.worker_files import WorkerFiles
from headwater.streaming.files.stores.storages import Storages
from headwater.streaming.files.sweep.executors import RemovalProof
from headwater.streaming.spark_jobs.job_watch import BytesAccumulator

FILES = 12


class Told:
    """In place of Spark's accumulator."""

    def __init__(self) -> None:
        self.results: list[DeleteResult] = []

    def add(self, content: bytes) -> None:
        self.results.append(msgspec.msgpack.decode(content, type=DeleteResult))


class Share(NamedTuple):
    store: Store
    folder: Path
    lease: HeldLease
    intents: RemovalIntents
    plan: DeletePlan
    keys: list[str]

    def delete(self) -> list[DeleteResult]:
        told = Told()
        batch = pa.RecordBatch.from_arrays([pa.array(self.keys, pa.string())], names=["text"])
        list(deleting(self.plan, cast(BytesAccumulator, told))([batch]))
        return told.results

    def left(self) -> int:
        return len(list(self.folder.glob("*.parquet")))


@pytest.fixture
def share(tmp_path: Path) -> Iterator[Share]:
    url, folder = f"sqlite:///{tmp_path}/store.db", tmp_path / "lake"
    (folder / "_headwater").mkdir(parents=True)
    (folder / "_headwater" / "root.json").write_bytes(b"claim")
    keys = []
    for number in range(FILES):
        (folder / f"{number:02}.parquet").write_text("PAR1")
        keys.append((f"file://{folder}/{number:02}.parquet", 4))
    root = f"file://{folder}/"
    with open_store(url, create=True) as store:
        leases = WorkLeases(store.backend, store.clock, 300)
        lease = leases.take("files", "run", leases.look("files"))
        assert lease is not None
        intents = RemovalIntents(store.backend, store.clock, "run")
        wanted = RemovalIntent(id="one", holder="run", root=root, realm="r", catalog_id=1, phase=RemovalPhase.DELETING)
        proof = RemovalProof(lease=lease.claim, intent=intents.put(wanted), root=root, claim=b"claim")
        plan = DeletePlan(files=WorkerFiles(store_url=url), proof=proof, batch_size=5, files_per_second=0, batches_per_second=0)
        yield Share(store, folder, lease, intents, plan, keep_keys(Storages(), root, "run", keys))


def test_a_share_is_deleted_and_done_again_by_another_worker_counts_as_missing(share: Share) -> None:
    [first] = share.delete()
    assert (first.stats.purged, first.stats.bytes, first.stats.batches, first.stopped) == (FILES, 4 * FILES, 3, "")
    [second] = share.delete()
    assert (second.stats.purged, second.stats.missing, share.left()) == (0, FILES, 0)
    both = merged([first, second])
    assert (both.purged, both.missing, both.requested) == (FILES, FILES, 2 * FILES)


def another_holder(share: Share) -> None:
    leases = WorkLeases(share.store.backend, share.store.clock)
    assert leases.take("files", "another", leases.look("files")) is not None


def no_intent(share: Share) -> None:
    share.intents.remove(["one"])


def another_claim(share: Share) -> None:
    (share.folder / "_headwater" / "root.json").write_bytes(b"theirs")


@pytest.mark.parametrize(("loss", "ends_run"), [(another_holder, True), (no_intent, True), (another_claim, False)])
def test_a_worker_deletes_nothing_without_lease_intent_and_claim(
    share: Share, loss: Callable[[Share], None], ends_run: bool
) -> None:
    loss(share)
    [result] = share.delete()
    assert result.stopped and result.is_superseded is ends_run
    assert (result.stats.purged, share.left()) == (0, FILES)


def test_deletions_before_an_outage_are_counted(share: Share, monkeypatch: pytest.MonkeyPatch) -> None:
    proved: list[int] = []
    require = RemovalProof.require

    def lost_at_the_second(proof: RemovalProof, *arguments: object) -> None:
        proved.append(1)
        if len(proved) == 2:
            another_holder(share)
        require(proof, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(RemovalProof, "require", lost_at_the_second)
    [result] = share.delete()
    assert result.is_superseded and (result.stats.purged, share.left()) == (5, FILES - 5)
