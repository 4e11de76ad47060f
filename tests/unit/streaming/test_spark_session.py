"""What a session starts with, what is shipped to a cluster, and how it is said that something is missing. No JVM."""

from __future__ import annotations

import socket
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from headwater.schemas.errors import HeadwaterError, InvalidInput, MissingDependency
from headwater.settings import load_settings
from headwater.streaming.spark import worker_daemon
from headwater.streaming.spark.package_zip import write_package_zip
from headwater.streaming.spark.session import (
    PROXIES,
    YARN_FOLDERS,
    SparkOptions,
    is_local,
    parse_conf,
    require_master,
    session_conf,
)
from headwater.wiring.spark import spark_options


@pytest.mark.parametrize("master", ["local", "local[2]", "local[*]", "local[4,2]"])
def test_a_local_session_stays_on_this_machine(master: str) -> None:
    conf = session_conf(SparkOptions(master=master))
    assert is_local(master)
    assert conf["spark.driver.host"] == conf["spark.driver.bindAddress"] == "127.0.0.1"
    assert int(conf["spark.sql.shuffle.partitions"]) >= 1


@pytest.mark.parametrize("master", ["spark://h:7077", "yarn", "k8s://https://h", "local-cluster[2,1,1024]"])
def test_a_cluster_chooses_its_own_bind_address(master: str) -> None:
    conf = session_conf(SparkOptions(master=master))
    assert not is_local(master)
    assert "spark.driver.host" not in conf and "spark.sql.shuffle.partitions" not in conf
    assert conf["spark.executorEnv.PYTHONSAFEPATH"] == "1"


def test_workers_start_from_our_daemon_only_where_they_surely_find_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)

    def daemon(master: str, **given: str) -> str | None:
        conf = {f"spark.{name}": value for name, value in given.items()}
        return session_conf(SparkOptions(master=master, conf=conf)).get("spark.python.daemon.module")

    assert daemon("local[2]") == worker_daemon.MODULE == worker_daemon.__name__
    assert daemon("spark://h:7077") is None and daemon("local-cluster[2,1,1024]") is None
    assert daemon("local[2]", **{"pyspark.python": "/usr/bin/python3"}) is None
    assert daemon("local[2]", **{"python.daemon.module": "mine"}) == "mine"
    monkeypatch.setenv("PYSPARK_PYTHON", "/usr/bin/python3")
    assert daemon("local[2]") is None
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    assert daemon("local[2]") == worker_daemon.MODULE
    monkeypatch.setattr("pyspark.__file__", str(tmp_path / "pyspark.zip" / "pyspark" / "__init__.py"))
    assert daemon("local[2]") is None


def test_settings_of_the_user_win() -> None:
    given = parse_conf("spark.driver.host=other spark.executor.extraJavaOptions='-Xss4m -ea'")
    conf = session_conf(SparkOptions(jars=("a.jar", "b.jar"), conf=given))
    assert conf["spark.driver.host"] == "other" and conf["spark.jars"] == "a.jar,b.jar"
    assert conf["spark.executor.extraJavaOptions"] == "-Xss4m -ea"


@pytest.mark.parametrize("text", ["executor.cores=2", "spark.executor.cores", "spark.x='open"])
def test_a_setting_that_spark_cannot_mean_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="spark_conf"):
        parse_conf(text)


def test_a_master_that_does_not_answer_is_named_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in PROXIES:
        monkeypatch.delenv(name, raising=False)
    for away in ("spark://127.0.0.1:1", "k8s://https://127.0.0.1:1", "k8s://127.0.0.1:1"):
        with pytest.raises(MissingDependency, match="no Spark master answers"):
            require_master(away)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        for there in ("local", "local[2]", f"spark://127.0.0.1:{port}", f"k8s://https://127.0.0.1:{port}"):
            require_master(there)
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy")
    require_master("k8s://https://127.0.0.1:1")


@pytest.mark.parametrize("master", ["nonsense", "", "http://127.0.0.1", "spark:/127.0.0.1"])
def test_what_is_not_a_master_is_refused_before_spark_is_started(master: str) -> None:
    with pytest.raises(InvalidInput, match=r"spark_master.*local\[\*\]"):
        require_master(master)


def test_yarn_needs_the_configuration_of_its_cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in YARN_FOLDERS:
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(MissingDependency, match="HADOOP_CONF_DIR"):
        require_master("yarn")
    monkeypatch.setenv("YARN_CONF_DIR", str(tmp_path))
    require_master("yarn")


def test_a_missing_java_is_reported_plainly(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(MissingDependency, match="Install Java 17"):
        spark_options(load_settings({}, {}))


def test_an_unsupported_java_is_reported_plainly(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(MissingDependency, match=r"version 11\.0\.2, not 17 or 21"):
        spark_options(load_settings({}, {}))


def test_a_missing_pyspark_is_reported_plainly(monkeypatch: pytest.MonkeyPatch) -> None:
    from headwater.streaming.spark import session

    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with pytest.raises(HeadwaterError, match=r"headwater\[spark\]"):
        session.spark_session()


def test_the_shipped_package_works_without_the_checkout(tmp_path: Path) -> None:
    """Only the zip and the installed dependencies: modules, the Avro schema and the entry points of the backends."""
    package = write_package_zip(tmp_path)
    names = zipfile.ZipFile(package).namelist()
    assert "headwater/streaming/sources/log_source.py" in names and "headwater/persistence/backends/sqlite/__init__.py" in names
    assert not [name for name in names if "__pycache__" in name]
    program = (
        "import sys, headwater; from headwater.persistence.backends import known_backends;"
        "import headwater.streaming.sources.log_source, headwater.streaming.sources.kafka_changes;"
        "print(headwater.__file__, sorted(known_backends()))"
    )
    answer = subprocess.run(
        [sys.executable, "-P", "-c", f"import sys; sys.path.insert(0, {str(package)!r}); {program}"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    assert str(package) in answer.stdout
    assert all(name in answer.stdout for name in ("cassandra", "postgresql", "sqlite"))
