"""Fetches sets of jars once and keeps them between checkouts.

Maven coordinates are written only here and in `kit_jars`. Ivy, which comes with PySpark, fetches them: it knows where Maven
Central is and verifies checksums. A folder appears under its final name only when it is complete.
"""

from __future__ import annotations

import hashlib
import importlib.util
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from itertools import groupby
from operator import attrgetter
from pathlib import Path

import msgspec

from headwater.dev.java import java_program
from headwater.dev.kind import Report, silent
from headwater.dev.kit_jars import HIVE, ICEBERG_KIT, NESSIE_KIT
from headwater.dev.state import locked, made_whole
from headwater.schemas.errors import InvalidInput, MissingDependency, ServerFailed


class Coordinate(msgspec.Struct, frozen=True):
    group: str
    artifact: str
    version: str
    classifier: str = ""
    extension: str = "jar"


def coordinates(text: str) -> tuple[Coordinate, ...]:
    """From lines of group:artifact:version, with or without a classifier."""
    return tuple(Coordinate(*line.split(":")) for line in text.split())


class JarSet(msgspec.Struct, frozen=True):
    name: str
    coordinates: tuple[Coordinate, ...]
    transitive: bool

    @property
    def folder_name(self) -> str:
        """Another version gets another folder: two checkouts may need different ones."""
        return f"{self.name}-{hashlib.sha256(msgspec.json.encode(self)).hexdigest()[:12]}"


JAR_SETS = {
    jar_set.name: jar_set
    for jar_set in (
        JarSet(
            "kafka",
            (Coordinate("org.apache.kafka", "kafka_2.13", "4.3.1"), Coordinate("org.slf4j", "slf4j-simple", "1.7.36")),
            transitive=True,
        ),
        JarSet("cassandra", (Coordinate("org.apache.cassandra", "cassandra-all", "5.0.9"),), transitive=True),
        JarSet(
            "registry",
            (Coordinate("io.apicurio", "apicurio-registry-app", "3.0.9", "all", "tar.gz"),),  # 3.3 needs Java 21
            transitive=False,
        ),
        # Not a server: the client whose ordinary work the tests do against our own.
        JarSet("nessie-client", (Coordinate("org.projectnessie.nessie", "nessie-client", "0.99.0"),), transitive=True),
        # A server that connectors follow; it needs Java 21 or newer.
        JarSet(
            "nessie-server",
            (Coordinate("org.projectnessie.nessie", "nessie-quarkus", "0.99.0", "runner"),),
            transitive=False,
        ),
        JarSet("hive", coordinates(HIVE), transitive=False),
        # Not servers either: the public kits that a catalog must pass.
        JarSet("iceberg-kit", coordinates(ICEBERG_KIT), transitive=False),
        JarSet("nessie-kit", coordinates(NESSIE_KIT), transitive=False),
        # Exact and without transitives, for `spark.jars`: spark.jars.packages cannot resolve the Kafka connector because its
        # token provider of the same version is not published.
        JarSet(
            "spark",
            (
                Coordinate("org.apache.spark", "spark-sql-kafka-0-10_2.13", "4.1.1"),
                Coordinate("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.0.0"),
                Coordinate("org.apache.kafka", "kafka-clients", "3.9.1"),
                Coordinate("org.apache.commons", "commons-pool2", "2.12.1"),
                Coordinate("org.apache.spark", "spark-avro_2.13", "4.1.1"),
                Coordinate("org.apache.iceberg", "iceberg-spark-runtime-4.1_2.13", "1.12.0"),
                Coordinate("org.xerial", "sqlite-jdbc", "3.53.4.0"),
                Coordinate("org.postgresql", "postgresql", "42.7.14"),
            ),
            transitive=False,
        ),
    )
}


def fetch_jars(name: str, cache: Path, report: Report = silent) -> Path:
    """The folder of a complete set; the first caller fills it, others wait for it."""
    if name not in JAR_SETS:
        raise InvalidInput(f"{name!r} is not a set of jars.", field="jars", remedy=f"Choose from {', '.join(JAR_SETS)}.")
    jar_set = JAR_SETS[name]
    folder = cache / jar_set.folder_name
    if folder.exists():
        return folder
    with locked(cache / "locks" / jar_set.name) as lock:
        if not folder.exists():
            _fill(jar_set, cache, folder, lock, report)
    return folder


def class_path(folder: Path) -> str:
    """Sorted, because a class data archive matches only the order with which it was made."""
    return ":".join(str(jar) for jar in sorted(folder.glob("*.jar")))


def _fill(jar_set: JarSet, cache: Path, folder: Path, lock: int, report: Report) -> None:
    """What an interrupted run has already fetched stays in Ivy's cache and is not fetched again."""
    ivy = cache / "ivy" / jar_set.name
    ivy.mkdir(parents=True, exist_ok=True)
    report("fetching jars")
    with made_whole(folder) as unfinished:
        _run_ivy(jar_set, ivy, unfinished, lock, report)
        for archive in unfinished.glob("*.tar.gz"):
            with tarfile.open(archive) as content:
                content.extractall(unfinished, filter="data")
            archive.unlink()
    shutil.rmtree(ivy, ignore_errors=True)


def _run_ivy(jar_set: JarSet, ivy: Path, destination: Path, lock: int, report: Report) -> None:
    """Ivy holds the lock too: if we are killed, nobody else uses its cache before it has ended."""
    (ivy / "settings.xml").write_text(_settings_xml(jar_set, ivy / "cache"))
    (ivy / "ivy.xml").write_text(_ivy_xml(jar_set))
    main = [java_program(), f"-Divy.default.ivy.user.dir={ivy}", "-cp", str(_ivy_jar()), "org.apache.ivy.Main"]
    files = ["-settings", str(ivy / "settings.xml"), "-ivy", str(ivy / "ivy.xml")]
    pattern = str(destination / "[artifact]-[revision](-[classifier]).[ext]")
    command = [*main, *files, "-confs", "default", "-types", "jar", "bundle", "tar.gz", "-retrieve", pattern]
    said: list[str] = []
    fetched = 0
    with subprocess.Popen(  # noqa: S603
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, pass_fds=(lock,)
    ) as process:
        assert process.stdout is not None  # noqa: S101
        for line in process.stdout:
            said = [*said[-40:], line.strip()]
            fetched += "[SUCCESSFUL ]" in line
            report(f"fetching jars: {fetched} so far" if fetched else "fetching jars: resolving")
    if process.returncode != 0 or not any(destination.iterdir()):
        reasons = [line for line in said if line and not line.startswith(("::", "|", "-"))]
        raise ServerFailed(
            f"The jars of {jar_set.name} could not be fetched: {' / '.join(reasons[-6:])}",
            remedy="Check that this machine reaches Maven Central, and run the command again.",
            jars=jar_set.name,
        )


def _ivy_jar() -> Path:
    spec = importlib.util.find_spec("pyspark")
    found = sorted(Path(next(iter(spec.submodule_search_locations or ()), "")).glob("jars/ivy-*.jar")) if spec else []
    if not found:
        raise MissingDependency(
            "PySpark, whose Ivy fetches the servers' jars, is not installed.", remedy="Run `pip install 'headwater[spark]'`."
        )
    return found[-1]


def _settings_xml(jar_set: JarSet, ivy_cache: Path) -> str:
    use_poms = str(jar_set.transitive).lower()
    return f"""<ivysettings>
  <settings defaultResolver="central"/>
  <caches defaultCacheDir="{ivy_cache}"/>
  <resolvers><ibiblio name="central" m2compatible="true" usepoms="{use_poms}"/></resolvers>
</ivysettings>
"""


def _ivy_xml(jar_set: JarSet) -> str:
    return f"""<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
  <info organisation="headwater" module="{jar_set.name}"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
{"".join(_dependency_xml(list(files), jar_set.transitive) for files in _by_module(jar_set.coordinates))}  </dependencies>
</ivy-module>
"""


def _by_module(wanted: tuple[Coordinate, ...]) -> Iterator[Iterator[Coordinate]]:
    """Ivy takes one dependency for each module, with all of its files."""
    module = attrgetter("group", "artifact", "version")
    return (files for _, files in groupby(sorted(wanted, key=module), key=module))


def _dependency_xml(files: list[Coordinate], transitive: bool) -> str:
    it = files[0]
    artifacts = "" if transitive else "".join(_artifact_xml(one) for one in files)
    named = f'org="{it.group}" name="{it.artifact}" rev="{it.version}" transitive="{str(transitive).lower()}"'
    return f'    <dependency {named} conf="default->default">{artifacts}</dependency>\n'


def _artifact_xml(it: Coordinate) -> str:
    classifier = f' m:classifier="{it.classifier}"' if it.classifier else ""
    return f'<artifact name="{it.artifact}" type="{it.extension}" ext="{it.extension}"{classifier}/>'
