"""Each real server starts, answers in its own protocol, and keeps what it acknowledged over kill -9."""

from __future__ import annotations

from urllib.parse import urlsplit

import httpx
import psycopg
import pytest
from cassandra.cluster import Cluster
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.servers.servers import FreshUrl, fresh_name, fresh_server, local_server


def test_postgres_gives_each_caller_an_empty_database(fresh_postgres: FreshUrl) -> None:
    first, second = fresh_postgres(), fresh_postgres()
    with psycopg.connect(first) as connection:
        connection.execute("CREATE TABLE t (n int)")
    with psycopg.connect(second) as connection:
        assert connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone() == (0,)


def test_postgres_refuses_a_wrong_password(postgres_url: str) -> None:
    user_and_password = postgres_url.split("//")[1].split("@")[0]
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(postgres_url.replace(user_and_password, "headwater:wrong"))


def test_postgres_runs_with_durable_settings(postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as connection:
        for setting in ("fsync", "synchronous_commit", "full_page_writes"):
            assert connection.execute(f"SHOW {setting}".encode()).fetchone() == ("on",)


def test_postgres_keeps_rows_over_kill_9_on_the_same_port() -> None:
    with fresh_server("postgres") as server:
        url, pid = server.url, server.pid
        with psycopg.connect(url) as connection:
            connection.execute("CREATE TABLE t (n int)")
            connection.execute("INSERT INTO t VALUES (7)")
        server.kill9()
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(url, connect_timeout=2)
        server.restart()
        assert (server.url, server.pid != pid) == (url, True)
        with psycopg.connect(url) as connection:
            assert connection.execute("SELECT n FROM t").fetchone() == (7,)


def test_cassandra_runs_with_a_synced_commit_log_and_new_paxos(cassandra_url: str) -> None:
    address = urlsplit(cassandra_url)
    with Cluster([address.hostname], port=address.port) as cluster, cluster.connect(address.path[1:]) as session:
        session.execute("CREATE TABLE t (k int PRIMARY KEY, v int)", timeout=60)
        assert session.execute("INSERT INTO t (k, v) VALUES (1, 2) IF NOT EXISTS").one().applied
        assert session.execute("SELECT v FROM t WHERE k = 1").one().v == 2
        live = dict(session.execute("SELECT name, value FROM system_views.settings"))
    assert (live["commitlog_sync"], live["paxos_variant"]) == ("batch", "v2")


def test_kafka_returns_a_committed_transaction_and_creates_no_topic_by_itself(kafka_bootstrap: str) -> None:
    topic, client = fresh_name(), {"bootstrap.servers": kafka_bootstrap}
    admin = AdminClient(client)
    for made in admin.create_topics([NewTopic(topic, num_partitions=1, replication_factor=1)]).values():
        made.result(timeout=60)
    producer = Producer(client | {"transactional.id": topic})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce(topic, b"water")
    producer.commit_transaction(60)
    consumer = Consumer(client | {"group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    messages = consumer.consume(1, timeout=60)
    consumer.close()
    assert [message.value() for message in messages] == [b"water"]
    assert admin.list_topics("never-made", timeout=60).topics["never-made"].error is not None


def test_the_registry_keeps_a_schema_over_kill_9() -> None:
    with local_server("registry") as server:
        subject = f"{server.url}/subjects/{fresh_name()}/versions"
        headers = {"Content-Type": "application/vnd.schemaregistry.v1+json"}
        registered = httpx.post(subject, json={"schema": '{"type": "string"}'}, headers=headers, timeout=60).json()
        server.kill9()
        server.restart()
        assert httpx.get(f"{subject}/latest", timeout=60).json()["id"] == registered["id"]
