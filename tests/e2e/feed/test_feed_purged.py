"""A catalog is purged under readers of several catalogs: they read on, past its end, and every server says the same."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

import headwater
from headwater import IcebergTable, Put
from headwater.client.remote import RemoteRealm
from headwater.schemas.change import Kind
from headwater.schemas.errors import CursorExpired, PointerPurged
from tests.support.fixtures.cli_runs import headwater as run_cli
from tests.support.servers.served import ServedStore, served

Seen = list[tuple[str, int, Kind]]


@pytest.fixture
def old(tmp_path: Path) -> Iterator[ServedStore]:
    """A server that runs throughout, and so has every pointer in memory."""
    with served(f"sqlite:///{tmp_path}/lake.db") as server:
        yield server


def cli(server: ServedStore, *arguments: str) -> str:
    ran = run_cli("--store", server.store_url, *arguments)
    assert ran.code == 0, ran.err
    return ran.out


def purge(server: ServedStore) -> str:
    return cli(server, "maintain", "purge-realms", "--catalogs", "--json")


def commit(realm: RemoteRealm, table: str) -> None:
    realm.catalog("lake").branch().commit([Put((table,), IcebergTable(f"s3://{table}"))])


def read(realm: RemoteRealm, pointers: list[str], after: str) -> tuple[Seen, str]:
    reader = realm.reader(pointers, after)
    return [(change.pointer, change.seq, change.kind) for change in reader.changes(follow=False)], reader.cursor


def test_readers_of_several_catalogs_read_on_when_one_is_purged(old: ServedStore) -> None:
    cli(old, "catalog", "create", "doomed")
    with headwater.connect(old.url) as remote:
        realm = remote.realm()
        pointers = [pointer.name for pointer in realm.pointers("cat/") if "/heads/" in pointer.name]
        lake, doomed = pointers
        both = realm.subscription("both")
        both.create(pointers, after="latest")
        _, behind = read(realm, pointers, "earliest")
        cli(old, "catalog", "drop", "doomed", "--purge", "--yes")
        purge(old)
        assert doomed in [pointer.name for pointer in realm.pointers("cat/")], "the subscription has not read its end"
        # As soon as the server notices what the command has done.
        assert [(change.pointer, change.kind) for change in both.changes(limit=1)] == [(doomed, Kind.DELETE)]
        seen, kept = read(realm, pointers, behind)
        assert [(pointer, kind) for pointer, _, kind in seen] == [(doomed, Kind.DELETE)]
        purge(old)
        commit(realm, "later")
        with served(old.store_url) as new, headwater.connect(new.url) as second:
            realms = [realm, second.realm()]
            found = [read(one, pointers, kept) for one in realms]
            assert found[0] == found[1] and [pointer for pointer, _, _ in found[0][0]] == [lake]
            for number, one in enumerate(realms):
                follower = one.reader(pointers, kept, stream=True).changes()
                assert next(follower).pointer == lake
                assert [change.pointer for change in one.subscription("both").changes(follow=False)] == [lake] * (number == 0)
            commit(realms[1], "last")
            assert [change.pointer for change in realms[1].subscription("both").changes(follow=False)] == [lake]
            with pytest.raises(CursorExpired) as expired:  # nobody held its end for this cursor
                read(realms[1], pointers, behind)
            assert expired.value.facts["pointer"] == doomed
            with pytest.raises(PointerPurged):
                read(realms[1], [doomed], "earliest")
            realms[1].subscription("both").rewind("latest")
            assert list(realms[1].subscription("both").changes(follow=False)) == []
            answer = httpx.get(f"{new.url}/feed/v1/default/changes", params={"after": kept, "wait": 1})
            assert answer.status_code == 200 and doomed in answer.json()["ranges"]


def test_a_reader_of_the_store_reads_past_the_end_too(old: ServedStore) -> None:
    cli(old, "catalog", "create", "doomed")
    with headwater.connect(old.url) as remote:
        realm = remote.realm()
        pointers = [pointer.name for pointer in realm.pointers("cat/") if "/heads/" in pointer.name]
        flags = [part for pointer in pointers for part in ("--pointer", pointer)]
        subscribe = [
            "subscribe",
            *flags,
            "--json",
            "--cursor-file",
            f"{Path(old.store_url.removeprefix('sqlite:///')).parent}/c",
        ]
        cli(old, "catalog", "drop", "doomed", "--purge", "--yes")
        assert len(cli(old, *subscribe).splitlines()) == 3
        purge(old)
        assert cli(old, *subscribe) == ""
        commit(realm, "later")
        assert len(cli(old, *subscribe).splitlines()) == 1
