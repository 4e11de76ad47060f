"""What is missing on the machine is said in one sentence that names the fix."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from headwater.dev import jars, java, postgres
from headwater.dev.jars import JAR_SETS, fetch_jars
from headwater.dev.java import java_program, newer_java
from headwater.dev.kinds import kind_named
from headwater.schemas.errors import InvalidInput, MissingDependency, ServerFailed


def fake_java(folder: Path, version: str) -> Path:
    (folder / "bin").mkdir(parents=True)
    program = folder / "bin" / "java"
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(0o755)
    return folder


def test_missing_java_names_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingDependency, match=r"Java is not on this machine\. Install Java 17"):
        java_program()


def test_a_java_home_without_java_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(MissingDependency, match=f"JAVA_HOME .{tmp_path}"):
        java_program()


@pytest.mark.parametrize("version", ["1.8.0_402", "11.0.2", "21.0.1", "25"])
def test_another_java_is_refused_with_its_version(version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path, version)))
    with pytest.raises(MissingDependency, match=f"is version {version}, not 17. Install Java 17"):
        java_program()


def test_java_17_is_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path, "17.0.9")))
    assert java_program() == str(tmp_path / "bin" / "java")


def test_a_newer_java_is_found_next_to_the_default_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "home", "17.0.9")))
    monkeypatch.setenv("PATH", str(fake_java(tmp_path / "path", "11.0.2") / "bin"))
    monkeypatch.setattr(java, "JVM_FOLDER", tmp_path / "jvm")
    with pytest.raises(MissingDependency, match=r"no Java 21 or newer .* Install one .*openjdk-21"):
        newer_java(21)
    for version in ("8", "25", "21.0.1"):
        fake_java(tmp_path / "jvm" / f"java-{version}", version)
    assert newer_java(21) == str(tmp_path / "jvm" / "java-21.0.1" / "bin" / "java")
    assert newer_java(17) == str(tmp_path / "home" / "bin" / "java")


def test_missing_initdb_names_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(postgres, "VERSIONS_FOLDER", tmp_path)
    with pytest.raises(MissingDependency, match=r"PostgreSQL's initdb is not on this machine\. Install PostgreSQL"):
        postgres.find_program("initdb")


def test_missing_pyspark_names_the_extra(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(jars.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(MissingDependency, match=r"PySpark.*pip install 'headwater\[spark\]'"):
        fetch_jars("kafka", tmp_path)


def test_jars_that_cannot_be_fetched_leave_no_folder_and_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    coordinate = jars.Coordinate("org.example.nowhere", "no-such-jar", "1.0")
    monkeypatch.setitem(JAR_SETS, "none", jars.JarSet("none", (coordinate,), transitive=False))
    with pytest.raises(ServerFailed, match=r"jars of none could not be fetched.*Maven Central"):
        fetch_jars("none", tmp_path)
    assert not (tmp_path / JAR_SETS["none"].folder_name).exists()


def test_two_callers_at_once_fetch_jars_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fetches: list[Path] = []

    def slow_ivy(jar_set: object, ivy: Path, destination: Path, lock: int, report: object) -> None:
        fetches.append(destination)
        time.sleep(0.3)
        (destination / "a.jar").touch()

    monkeypatch.setattr(jars, "_run_ivy", slow_ivy)
    with ThreadPoolExecutor(2) as pool:
        folders = set(pool.map(lambda _: fetch_jars("kafka", tmp_path), range(2)))
    assert len(fetches) == 1
    assert [jar.name for folder in folders for jar in folder.iterdir()] == ["a.jar"]


def test_an_unknown_server_or_jar_set_names_the_choice(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="Choose from kafka, cassandra, postgres, registry"):
        kind_named("oracle")
    with pytest.raises(
        InvalidInput,
        match="Choose from kafka, cassandra, registry, nessie-client, nessie-server, hive, iceberg-kit, nessie-kit, spark",
    ):
        fetch_jars("oracle", tmp_path)


def test_spark_jars_are_exact_and_without_transitives() -> None:
    spark = JAR_SETS["spark"]
    assert not spark.transitive
    artifacts = {it.artifact for it in spark.coordinates}
    assert {"iceberg-spark-runtime-4.1_2.13", "spark-sql-kafka-0-10_2.13", "postgresql"} <= artifacts


def test_another_version_gets_another_folder() -> None:
    other = jars.JarSet("kafka", (jars.Coordinate("org.apache.kafka", "kafka_2.13", "4.0.0"),), transitive=True)
    assert other.folder_name != JAR_SETS["kafka"].folder_name
