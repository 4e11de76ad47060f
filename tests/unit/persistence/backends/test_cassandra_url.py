"""What a Cassandra URL may say, and that a refusal never repeats its password."""

from __future__ import annotations

import pytest

from headwater.persistence.backends.cassandra.url import PASSWORD_VARIABLE, CassandraOptions, parse_url
from headwater.schemas.errors import InvalidStoreUrl


def test_a_short_url_has_defaults_for_one_node() -> None:
    assert parse_url("cassandra://db:9999/lake") == CassandraOptions(hosts=[("db", 9999)], keyspace="lake")
    assert parse_url("cassandra://db/lake").hosts == [("db", 9042)]


def test_a_url_may_name_every_option() -> None:
    url = "cassandra://us%40er:p%3Aw@a:1,b,[::1]:2/lake?consistency=local&datacenter=dc1&replication=3&timeout=2.5"
    assert parse_url(url) == CassandraOptions(
        hosts=[("a", 1), ("b", 9042), ("::1", 2)],
        keyspace="lake",
        local=True,
        datacenter="dc1",
        replication=3,
        user="us@er",
        password="p:w",
        timeout_seconds=2.5,
    )


def test_the_password_may_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PASSWORD_VARIABLE, "from-outside")
    assert parse_url("cassandra://db/lake?user=me").password == "from-outside"
    assert parse_url("cassandra://me:inside@db/lake").password == "inside"


def test_the_location_of_a_store_does_not_contain_the_password() -> None:
    assert parse_url("cassandra://me:secret@db/lake").where == "cassandra://db:9042/lake"


@pytest.mark.parametrize(
    ("url", "word"),
    [
        ("cassandra://me:secret@db", "keyspace"),
        ("cassandra://me:secret@db/", "keyspace"),
        ("cassandra://me:secret@db/no-such;name", "keyspace name"),
        ("cassandra://me:secret@db/" + "k" * 49, "keyspace name"),
        ("cassandra://me:secret@db:port/lake", "host:port"),
        ("cassandra://me:secret@db:70000/lake", "host:port"),
        ("cassandra://me:secret@a,,b/lake", "host:port"),
        ("cassandra://me:secret@db/lake/more", "form"),
        ("cassandra://me:secret@db/lake?colour=red", "colour"),
        ("cassandra://me:secret@db/lake?consistency=eventual", "eventual"),
        ("cassandra://me:secret@db/lake?consistency=local", "datacenter"),
        ("cassandra://me:secret@db/lake?replication=0", "replication"),
        ("cassandra://me:secret@db/lake?replication=many", "replication"),
        ("cassandra://me:secret@db/lake?timeout=-1", "timeout"),
    ],
)
def test_a_wrong_url_is_refused_in_one_line_without_the_password(url: str, word: str) -> None:
    with pytest.raises(InvalidStoreUrl) as refused:
        parse_url(url)
    assert word in str(refused.value)
    assert "secret" not in str(refused.value)
    assert "\n" not in str(refused.value)
