"""The package as users install it: built through the sdist, in clean environments, with no extra and with each one alone."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import grpc
import httpx
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tests.support.fixtures.iceberg_files import memory_catalog, table_with_history
from tests.support.fixtures.installs import Environment, build_through_sdist, install
from tests.support.servers.feed_server import FeedServer, feed_server
from tests.support.servers.ports import free_port
from tests.support.servers.servers import FreshUrl

ROOT = Path(__file__).resolve().parents[3]
PLAIN = ""
"""Without any extra."""

Install = Callable[[str], Environment]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_through_sdist(tmp_path_factory.mktemp("release"))


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Install:
    """One environment for each extra, made when it is first asked for."""
    made: dict[str, Environment] = {}

    def with_extra(extra: str) -> Environment:
        if extra not in made:
            made[extra] = install(wheel, extra, tmp_path_factory.mktemp(extra or "plain"))
        return made[extra]

    return with_extra


MAKE_LAKE = """
import headwater, sys
from headwater import IcebergTable, Put
with headwater.open(sys.argv[1], create=True) as engine:
    lake = engine.ensure_realm().ensure_catalog("lake")
    lake.branch().commit([Put(("orders",), IcebergTable("s3://lake/orders"))])
"""


def make_lake(here: Environment, store: str) -> None:
    """A store of one catalog, whose branch main has two entries."""
    here.run([here.python, "-c", MAKE_LAKE, store]).succeeded()


@pytest.fixture(scope="module")
def plain(environment: Install) -> Environment:
    """With a store `lake.db` of one commit."""
    here = environment(PLAIN)
    make_lake(here, "sqlite:///lake.db")
    return here


# ── without an extra ────────────────────────────────────────────────────────────────────────────────────────


def test_the_first_example_of_the_readme_runs(environment: Install, tmp_path: Path) -> None:
    example = re.search(r"^```python\n(.*?)^```$", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    assert example is not None
    here = environment(PLAIN)
    done = here._replace(folder=tmp_path).execute(example.group(1)).succeeded()
    assert "shop.orders" in done.out


@pytest.mark.parametrize(
    "command",
    [
        "--help", "--version", "log", "changes --json", "snapshot", "subscribe --json", "audit verify", "diff main main",
        "maintain check", "maintain sweep --dry-run", "maintain schedule --once", "publish --status", "settings", "dev status",
        "principal list", "subscribe --help", "publish --help", "serve --help", "audit --help",
    ],
)  # fmt: skip
def test_commands_on_an_embedded_store_need_no_extra(plain: Environment, command: str) -> None:
    plain.headwater("--store", "sqlite:///lake.db", *command.split()).succeeded()


@pytest.mark.parametrize(
    ("command", "extra"),
    [
        ("subscribe --server http://127.0.0.1:9", "client"),
        ("audit verify --server http://127.0.0.1:9", "client"),
        ("webhook send --server http://127.0.0.1:9 --url http://127.0.0.1:9 --cursor-file c --dead-letters d", "client"),
        ("subscribe --kafka 127.0.0.1:9", "kafka"),
        ("audit verify --kafka 127.0.0.1:9", "kafka"),
        ("publish --kafka 127.0.0.1:9 --once", "kafka"),
        ("serve --dev", "service"),
        ("maintain files find s3://lake/shop", "files"),
        ("maintain retained", "spark"),
        ("maintain sweep --spark", "spark"),
        ("audit export changes.parquet", "spark"),
        ("--store postgresql://postgres@127.0.0.1:9/lake log", "postgres"),
        ("--store cassandra://127.0.0.1:9/lake log", "cassandra"),
    ],
)
def test_a_command_without_its_extra_names_it_in_one_line(plain: Environment, command: str, extra: str) -> None:
    refusal = plain.headwater("--store", "sqlite:///lake.db", *command.split()).error
    assert refusal.startswith("error MISSING_DEPENDENCY: ") and f"'headwater[{extra}]'" in refusal


@pytest.mark.parametrize(("name", "extra"), [("connect", "client"), ("Metrics", "metrics"), ("Spans", "otel")])
def test_a_public_name_without_its_extra_names_it(plain: Environment, name: str, extra: str) -> None:
    done = plain.execute(f"import headwater; headwater.{name}")
    assert done.code == 1 and "MissingDependency: " in done.err and f"'headwater[{extra}]'" in done.err


# ── each extra alone ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("extra", "fresh"), [("postgres", "fresh_postgres"), ("cassandra", "fresh_cassandra")])
def test_a_database_needs_its_extra_alone(environment: Install, extra: str, fresh: str, request: pytest.FixtureRequest) -> None:
    new_url: FreshUrl = request.getfixturevalue(fresh)
    here, store = environment(extra), new_url()
    make_lake(here, store)
    lines = here.headwater("--store", store, "changes", "--json").succeeded().out.splitlines()
    assert [json.loads(line)["seq"] for line in lines] == [1, 2]


def test_the_kafka_extra_alone_publishes_and_reads_topics(environment: Install, kafka_bootstrap: str) -> None:
    here = environment("kafka")
    make_lake(here, "sqlite:///lake.db")
    here.headwater("--store", "sqlite:///lake.db", "publish", "--kafka", kafka_bootstrap, "--once").succeeded()
    read = here.headwater("subscribe", "--kafka", kafka_bootstrap, "--pointer", "cat/1/heads/main", "--json").succeeded()
    assert [json.loads(line)["seq"] for line in read.out.splitlines()] == [1, 2]


def test_the_client_extra_alone_writes_and_follows(environment: Install, shared_feed: FeedServer) -> None:
    here = environment("client")
    here.execute(
        f"""
import headwater
from headwater import IcebergTable, Put
with headwater.connect({shared_feed.url!r}) as server:
    branch = server.realm().catalog("lake").create_branch("installed-client")
    branch.commit([Put(("installed",), IcebergTable("s3://lake/installed"))])
"""
    ).succeeded()
    printed = here.headwater("subscribe", "--server", shared_feed.url, "--branch", "installed-client", "--json").succeeded()
    assert json.loads(printed.out.splitlines()[-1])["operations"][0]["key"] == ["installed"]


@pytest.mark.parametrize(("extra", "name"), [("metrics", "Metrics"), ("otel", "Spans")])
def test_observability_needs_only_its_extra(environment: Install, extra: str, name: str) -> None:
    code = f"import headwater; headwater.open('memory://', create=True, observers=[headwater.{name}()]).close()"
    environment(extra).execute(code).succeeded()


def test_the_files_extra_alone_finds_the_files_of_a_table(environment: Install, tmp_path: Path) -> None:
    here = environment("files")
    with memory_catalog(f"file://{tmp_path}/warehouse") as catalog:
        location = table_with_history(catalog, "orders").metadata_location
    identified = here.headwater("maintain", "files", "identify", location, "--json").succeeded().out.splitlines()
    found = here.headwater("maintain", "files", "find", f"{tmp_path}/warehouse", "--json").succeeded().out.splitlines()
    assert {json.loads(line)["location"] for line in identified} == {f"file://{json.loads(line)['location']}" for line in found}


def test_the_protobuf_extra_alone_has_its_codec(environment: Install) -> None:
    environment("protobuf").execute("import headwater.schemas.protobuf.protobuf_codec").succeeded()


def test_the_spark_extra_alone_has_its_sources_and_in_a_soak_run_sweeps(environment: Install) -> None:
    """Jobs run in tests/e2e/spark too, in an environment with everything."""
    here = environment("spark")
    modules = "spark.session sources.log_source sources.rows_source sources.kafka_changes spark_jobs.retained_job"
    here.execute("\n".join(f"import headwater.streaming.{module}" for module in modules.split())).succeeded()
    if os.environ.get("HEADWATER_SOAK"):
        make_lake(here, "sqlite:///lake.db")
        here.headwater("--store", "sqlite:///lake.db", "maintain", "sweep", "--spark", "--dry-run").succeeded()


def test_live_views_need_only_the_faust_extra(environment: Install) -> None:
    here = environment("faust")
    here.execute("import headwater.consumers.views.views_worker").succeeded()
    assert "KAFKA_UNAVAILABLE" in here.headwater("views", "--kafka", "127.0.0.1:1").err


FILTER = {"filter": "commit.author == 'nobody'"}


def test_a_service_alone_serves_and_names_the_extra_for_filters(environment: Install, tmp_path: Path) -> None:
    here = environment("service")
    with feed_server(f"sqlite:///{tmp_path}/lake.db", python=here.python) as server:
        assert httpx.get(f"{server.url}/iceberg/v1/config", params={"warehouse": "lake"}).status_code == 200
        assert httpx.get(f"{server.url}/api/v2/trees/main/history").status_code == 200
        refused = httpx.get(f"{server.url}/api/v2/trees/main/history", params=FILTER)
        assert refused.status_code == 501 and "headwater[nessie]" in refused.text


def test_a_service_without_the_extra_grpc_names_it_before_it_serves(environment: Install, tmp_path: Path) -> None:
    here = environment("service")
    refusal = here.headwater(
        "--store", f"sqlite:///{tmp_path}/lake.db", "--set", f"grpc_port={free_port()}", "serve", "--dev"
    ).error
    assert refusal.startswith("error MISSING_DEPENDENCY: ") and "'headwater[grpc]'" in refusal


def test_a_service_with_the_extra_grpc_serves_both(environment: Install, tmp_path: Path) -> None:
    port = free_port()
    with (
        feed_server(f"sqlite:///{tmp_path}/lake.db", settings={"grpc_port": port}, python=environment("service,grpc").python),
        grpc.insecure_channel(f"127.0.0.1:{port}") as channel,
    ):
        health = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), wait_for_ready=True, timeout=60)
        assert health.status == health_pb2.HealthCheckResponse.SERVING


def test_filters_need_only_the_nessie_extra(environment: Install, tmp_path: Path) -> None:
    here = environment("nessie")
    with feed_server(f"sqlite:///{tmp_path}/lake.db", python=here.python) as server:
        answer = httpx.get(f"{server.url}/api/v2/trees/main/history", params=FILTER)
        assert answer.status_code == 200 and answer.json()["logEntries"] == []
