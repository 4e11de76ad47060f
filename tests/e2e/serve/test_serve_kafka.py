"""`headwater serve --kafka`: one command serves the feed and publishes it."""

from __future__ import annotations

from pathlib import Path

import httpx

import headwater
from headwater.schemas.topics import commits_topic
from tests.support.fixtures.publisher_runs import assert_topic_equals_log, instance_of, log_of, read_topic, wait_until
from tests.support.servers.served import served

COMMITS = 5


def test_a_commit_over_http_reaches_kafka_and_the_metrics_show_its_lag(tmp_path: Path, kafka_bootstrap: str) -> None:
    url = f"sqlite:///{tmp_path}/lake.db"
    with served(url, "--kafka", kafka_bootstrap) as server:
        for n in range(COMMITS):
            body = {
                "catalog": "lake",
                "branch": "main",
                "author": "ada",
                "operations": [
                    {"op": "put", "key": [f"t{n}"], "type": "ICEBERG_TABLE", "content": {"metadata_location": "s3://t"}}
                ],
            }
            answer = httpx.post(f"{server.url}/feed/v1/default/commit", json=body, timeout=30)
            assert answer.status_code in (200, 201), answer.text
        with headwater.open(url) as engine:
            realm = instance_of(engine)

            def published() -> int:
                return sum(found.record.change is not None for found in read_topic(kafka_bootstrap, commits_topic(realm)))

            log = log_of(engine.store, realm)
            assert len(log["cat/1/heads/main"]) == COMMITS + 1
            wait_until(lambda: published() == sum(map(len, log.values())), "the commits of every pointer are in Kafka")
            metrics = httpx.get(f"{server.url}/metrics", timeout=30).text
            assert "headwater_publisher_lag_commits" in metrics
            server.stop()
            assert_topic_equals_log(engine.store, kafka_bootstrap, realm)


def test_without_kafka_no_publisher_is_started(tmp_path: Path) -> None:
    with served(f"sqlite:///{tmp_path}/lake.db") as server:
        assert "headwater_publisher" not in httpx.get(f"{server.url}/metrics", timeout=30).text
