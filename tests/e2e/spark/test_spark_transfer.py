"""An imported realm is streamed and swept like any other: its retained set begins by walking and continues with its log."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from headwater.persistence.backends import open_backend
from headwater.persistence.clock import SystemClock
from headwater.streaming.reachability.retained_identifiers import Identifiers
from headwater.streaming.retained.retained_store import RetainedStore
from headwater.streaming.spark_jobs.retained_job import RetainedJob, lag
from headwater.streaming.spark_jobs.retained_rows import StreamedSource
from headwater.streaming.sweep.verify import verify_realm
from tests.support.faults.manual_clock import ManualClock
from tests.support.fixtures.maintained import MAIN, sweep_store
from tests.support.fixtures.transferred import export, feeds, load, memory_backend, realm_with_history
from tests.support.models.commit_harness import Lanes, Write, store_on

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAYS = 86_400_000_000


def test_an_imported_realm_is_streamed_and_swept_and_loses_nothing(spark: SparkSession, tmp_path: Path) -> None:
    realm = realm_with_history(memory_backend(), ManualClock(SystemClock().now_micros() - 30 * DAYS), steps=15)
    url = f"sqlite:///{tmp_path}/there.db"
    backend = open_backend(url)
    backend.create_schema()
    store = store_on(backend)
    instance = load(store, export(realm.store, tmp_path, low_level=True).file).instance
    job = RetainedJob(spark, store, url, RetainedStore(str(tmp_path / "retained"), instance))
    job.run()
    Lanes(store.kernel(instance)).landed(MAIN, Write(puts={"new": {"v": 1}}, deletes=("key-0001",)))
    assert lag(store, job.state())
    state = job.run()
    assert not lag(store, state)
    source = StreamedSource(spark, str(tmp_path / "retained"))
    before = feeds(store, instance)
    swept, _ = sweep_store(store, [instance], source=source)
    assert swept.swept == [instance] and sum(it.purged for it in swept.counts[instance].values()) > 0, "there was no garbage"
    assert feeds(store, instance) == before
    walked = verify_realm(backend, instance, store.clock, Identifiers())
    assert walked.holds and walked.unreached == 0, "the streamed set is not the walked one"
