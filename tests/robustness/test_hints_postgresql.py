"""PostgreSQL hints at moves of other processes, and nothing rests on the hint."""

from __future__ import annotations

import threading
import time

import psycopg

import headwater
from headwater import IcebergTable, Namespace, Put
from headwater.persistence.reading.head_watch import HeadWatch
from headwater.persistence.store import StoreOptions

LONG_SECONDS = 60.0
"""So long that a poll cannot be what is noticed."""


def end_listeners(url: str) -> int:
    """End the sessions that listen, as soon as there is one; how many there were."""
    with psycopg.connect(url, autocommit=True) as admin:
        for _ in range(100):
            ended = admin.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE query LIKE 'LISTEN headwater%' AND datname = current_database()"
            ).fetchall()
            if ended:
                return len(ended)
            time.sleep(0.1)
    return 0


def test_a_commit_elsewhere_wakes_a_waiter_long_before_it_would_poll(postgres_url: str) -> None:
    never_polls = StoreOptions(poll_seconds=LONG_SECONDS)
    with headwater.open(postgres_url, create=True, options=never_polls) as here, headwater.open(postgres_url) as elsewhere:
        realm = here.ensure_realm("default")
        branch = realm.ensure_catalog("lake").branch()
        watch = HeadWatch(realm.kernel)
        seq = watch.head(branch.pointer).seq
        woken: list[int] = []
        waiter = threading.Thread(target=lambda: woken.append(watch.wait(branch.pointer, seq, LONG_SECONDS).seq))
        waiter.start()
        elsewhere.realm("default").catalog("lake").branch().commit([Put(("db",), Namespace())])
        waiter.join(LONG_SECONDS / 2)
        watch.close()
        assert woken == [seq + 1]


def test_without_its_listening_connection_a_watch_still_notices_by_polling(postgres_url: str) -> None:
    with headwater.open(postgres_url, create=True) as here, headwater.open(postgres_url) as elsewhere:
        here.ensure_realm("default").ensure_catalog("lake").branch().commit([Put(("db",), Namespace())])
        branch = here.realm("default").catalog("lake").branch()
        seq = list(branch.changes())[-1].seq
        assert end_listeners(postgres_url) >= 1, "the fault never fired: nobody was listening"
        elsewhere.realm("default").catalog("lake").branch().commit([Put(("db", "t"), IcebergTable("s3://t"))])
        changes = branch.changes(seq, follow=True)
        assert next(changes).seq == seq + 1


def test_a_burst_of_commits_is_coalesced_into_few_hints(postgres_url: str) -> None:
    with headwater.open(postgres_url, create=True) as engine, psycopg.connect(postgres_url, autocommit=True) as ear:
        branch = engine.ensure_realm("default").ensure_catalog("lake").branch()
        branch.commit([Put(("db",), Namespace())])
        time.sleep(0.1)
        ear.execute("LISTEN headwater_moved")
        for n in range(50):
            branch.commit([Put(("db", f"t{n}"), IcebergTable("s3://t"))])
        heard = list(ear.notifies(timeout=0.5))
        assert 1 <= len(heard) <= 50
