"""`headwater maintain retained --kafka` as its users type it: all realms, over a broker that asks for TLS and a password."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import headwater as library
from headwater.dev.secure.kafka_secure import SecureKafka, user_settings
from headwater.dev.server import Server, running
from tests.support.fixtures.cli_runs import CliRun, headwater
from tests.support.fixtures.publisher_runs import new_lake, put


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Server]:
    with running(SecureKafka.name, tmp_path / "secure") as server:
        yield server


def test_the_sets_of_all_realms_are_kept_from_kafka_and_that_of_the_system_from_the_log(
    tmp_path: Path, spark: SparkSession, broker: Server
) -> None:
    url = f"sqlite:///{tmp_path}/lake.db"
    given = {**user_settings(broker.record), "kafka_access_topic": "true", "maintenance_dir": str(tmp_path / "sets")}

    def run(*arguments: str) -> CliRun:
        flags = [flag for name, value in given.items() for flag in ("--set", f"{name}={value}")]
        return headwater("--store", url, *flags, *arguments)

    with library.open(url, create=True) as engine:
        for realm in ("default", "other"):
            new_lake(engine, realm).branch().commit([put("t", 1)])
        # A realm that was never published is named before Spark starts.
        assert run("publish", "--once", "--realm", "default").code == 0
        assert "'other'" in run("maintain", "retained", "--kafka").error
        assert run("publish", "--once").code == 0
        first = run("maintain", "retained", "--kafka", "--json").json["realms"]
        assert [one["realm"].partition("#")[0] for one in first] == ["::system::", "default", "other"]
        for number in range(5):
            new_lake(engine).branch().commit([put("t", number + 2)])
        assert run("publish", "--once").code == 0
        second = run("maintain", "retained", "--kafka", "--json").json["realms"]
        assert second[1]["step"] > first[1]["step"] and second[1]["rows"] > first[1]["rows"]
        assert run("maintain", "check", "--stream", "--realm", "default").code == 0
    given["kafka_sasl_password"] = "wrong"
    assert "kafka_sasl_password" in run("maintain", "retained", "--kafka").error
    given["kafka_sasl_mechanism"] = "OAUTHBEARER"
    given["kafka_oauth_token_url"] = "http://127.0.0.1:1/token"
    assert "KAFKA" in run("maintain", "retained", "--kafka").error
