"""A topic that tells of history that was cut and of a catalog that is gone: a set that is seeded later is kept from it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import headwater
from headwater.streaming.purge.catalog_purge import CatalogPurge
from headwater.streaming.reachability.retained_identifiers import Identifiers
from headwater.streaming.retained.retained_store import RetainedStore
from headwater.streaming.sources.kafka_changes import KafkaOptions
from headwater.streaming.spark_jobs.retained_job import RetainedJob
from headwater.streaming.spark_jobs.retained_rows import StreamedSource
from headwater.streaming.sweep.verify import verify_realm
from tests.support.fixtures.publisher_runs import options, publish_rest, put
from tests.support.fixtures.spark_lakes import cut_history

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_set_is_kept_from_a_topic_with_truncations_and_purged_catalogs(
    spark: SparkSession, kafka_bootstrap: str, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path}/lake.db"
    with headwater.open(url, create=True) as engine:
        realm = engine.ensure_realm()
        for name in ("lake", "old"):
            branch = realm.ensure_catalog(name).branch()
            for number in range(8):
                branch.commit([put(f"t{number % 3}", number)])
            cut_history(engine, branch.pointer)  # before Kafka has got it: the topic says so
        publish_rest(engine.store, options(kafka_bootstrap))
        realm.drop_catalog("old")
        publish_rest(engine.store, options(kafka_bootstrap))
        (purged,) = CatalogPurge(realm.kernel, age_seconds=0).run()
        assert purged.waiting == "" and purged.pointers == 1
        realm.catalog("lake").branch().commit([put("t9", 9)])
        publish_rest(engine.store, options(kafka_bootstrap))

        store, folder = engine.store, str(tmp_path / "retained")
        job = RetainedJob(spark, store, url, RetainedStore(folder, realm.kernel.realm))
        state = job.run_kafka(KafkaOptions(bootstrap=kafka_bootstrap, realm_instance=realm.kernel.realm, store=url))
        assert purged.catalog_id == 2 and "cat/2/heads/main" not in state.positions
        source = StreamedSource(spark, folder)
        report = verify_realm(store.backend, realm.kernel.realm, store.clock, Identifiers(), source)
        assert report.holds and report.streamed == report.walked > 10
