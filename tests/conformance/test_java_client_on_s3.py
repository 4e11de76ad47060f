"""Iceberg's own Java client on S3, with nothing but what the server gives it: credentials, or signatures of each request."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import headwater
from headwater.dev.jars import class_path, fetch_jars
from headwater.dev.java import java_program
from headwater.settings import load_settings
from tests.support.servers.feed_server import FeedServer, feed_server
from tests.support.servers.moto_server import BUCKET, ROLE_ARN, MotoServer, moto_with_sessions

HERE = Path(__file__).parent
QUICK = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx512m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"]
CLASS = "FilesOfOneTable"


@pytest.fixture(scope="module")
def moto() -> Iterator[MotoServer]:
    with moto_with_sessions() as server:
        yield server


@pytest.fixture(scope="module")
def served(moto: MotoServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FeedServer]:
    settings = {
        "storage_options": shlex.join(f"{name}={value}" for name, value in moto.options.items()),
        "storage_client_options": f"s3.endpoint={moto.url} client.region=us-east-1",
        "storage_role": ROLE_ARN,
        "storage_sts_endpoint": moto.url,
        "storage_remote_signing": "true",
    }
    with feed_server(f"sqlite:///{tmp_path_factory.mktemp('java')}/lake.db", settings=settings) as server:
        with headwater.open(server.store_url) as engine:
            engine.realm().create_catalog("remote", storage_root=f"s3://{BUCKET}/java")
        yield server


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command that runs it."""
    jars = class_path(fetch_jars("iceberg-kit", Path(load_settings().jar_cache_dir).expanduser()))
    classes = tmp_path_factory.mktemp("classes")
    compiler = [java_program(), "-m", "jdk.compiler/com.sun.tools.javac.Main", "-cp", jars, "-d", str(classes)]
    subprocess.run([*compiler, str(HERE / f"{CLASS}.java")], check=True)
    return [java_program(), *QUICK, "-cp", f"{classes}:{jars}", f"headwater.conformance.{CLASS}"]


@pytest.mark.parametrize("way", ["vended-credentials", "remote-signing"])
def test_it_reaches_the_files_of_its_table_and_of_no_other(
    way: str, client: list[str], served: FeedServer, tmp_path: Path
) -> None:
    """⚠ Without keys of its environment: `HOME` is empty, and no instance is asked."""
    environ = {"HOME": str(tmp_path), "AWS_EC2_METADATA_DISABLED": "true", "AWS_REGION": "us-east-1"}
    command = [*client, f"{served.url}/iceberg/", "remote", way]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[:3_000]
    told = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    assert told["files"] == "5", "metadata twice, a manifest list, a manifest and a data file"
    for attempt in ("read", "write", "list"):
        assert told[attempt].startswith("refused "), told
        assert "403" in told[attempt] or "orbidden" in told[attempt] or "not for a file of the table" in told[attempt], told
