"""Two public kits against an ordinary server: Iceberg's REST Compatibility Kit and the REST tests of Nessie.

The lists beside this file name every test and its result, so that a regression is named.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from xml.etree import ElementTree

import httpx
import pytest

import headwater
from headwater.dev.jars import class_path, fetch_jars
from headwater.dev.java import java_program
from headwater.settings import load_settings
from tests.support.running.told_lines import TOLD
from tests.support.servers.feed_server import FeedServer, feed_server

HERE = Path(__file__).parent
QUICK = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx512m"]
LAUNCHER = ["org.junit.platform.console.ConsoleLauncher", "execute", "--disable-banner", "--details=none"]
KIT_SECONDS = 500
WITH = ":"
Record = Callable[[str, object], None]
NEED_ENGINE_GC = "org.apache.iceberg.rest.RESTCompatibilityKitCatalogTests.testRemoveUnused(Spec|Schemas)"
"""⚠ They expire snapshots by the client, which deletes files by itself: what `engine_gc=refuse` is there to refuse."""
GC_IS_REFUSED = "Cannot expire snapshots: GC is disabled"
NEED_A_HASH = (
    r"assignReference(From|To)(Branch|Tag)Head|assignReferenceTo(Branch|Tag)Ambiguous|commitToBranchHead"
    r"|createReferenceFrom(Branch|Tag)(Ambiguous|Head)|deleteReferenceHead|merge(From(Branch|Tag)|ToBranch)Head"
    r"|mergeFrom(Branch|Tag)Ambiguous|transplantFrom(Branch|Tag)Ambiguous|transplantToBranchHead|references|referencesUntyped"
)
"""They expect that a write without the commit that the writer has seen is refused: what `write_without_hash=refuse` does."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FeedServer]:
    """With default settings, but for those set below and a storage root that covers the locations that the kit chooses."""
    url = f"sqlite:///{tmp_path_factory.mktemp('kits')}/lake.db"
    with feed_server(url) as served:
        with headwater.open(url) as engine:
            for name in ("kit", "kit-with-engine-gc"):
                engine.realm().create_catalog(name, storage_root="file:///tmp")
        _set(served, "kit-with-engine-gc", engine_gc="allow")
        yield served


def _set(server: FeedServer, catalog: str, **properties: str) -> None:
    answer = httpx.patch(f"{server.url}/manage/v1/default/catalogs/{catalog}", json={"properties": properties}, timeout=30)
    assert answer.status_code == 200, answer.text


def _jars(name: str) -> str:
    return class_path(fetch_jars(name, Path(load_settings().jar_cache_dir).expanduser()))


def _results(java: list[str], folder: Path, environ: dict[str, str] | None = None) -> dict[str, str]:
    """What became of each test. A failure's message is printed, where pytest shows it; a refusal is listed as such."""
    command = [java_program(), *QUICK, *java, f"--reports-dir={folder}"]
    done = subprocess.run(
        command, env={**os.environ, **(environ or {})}, capture_output=True, text=True, timeout=KIT_SECONDS, check=False
    )
    found: dict[str, str] = {}
    for report in folder.glob("*.xml"):
        for case in ElementTree.parse(report).iter("testcase"):
            name = f"{case.get('classname', '').rpartition('.')[2]}.{case.get('name')}"
            fault = next((one for one in case if one.tag in ("failure", "error")), None)
            message = "" if fault is None else fault.get("message", "")
            if fault is None:
                found[name] = "passed" if case.find("skipped") is None else "skipped"
            else:
                found[name] = "refused" if message.startswith(GC_IS_REFUSED) else "failed"
                print(name, message[:500])
    assert found, done.stdout[-2_000:] + done.stderr[-2_000:]
    return found


def _with(setting: str, found: dict[str, str]) -> dict[str, str]:
    """The lists name what passes with a setting alone that is not the default."""
    return {name: f"{result}{WITH}{setting}" for name, result in found.items()}


def _listed(name: str) -> dict[str, str]:
    lines = (HERE / name).read_text().splitlines()
    return dict(reversed(line.split(" ", 1)) for line in lines)  # type: ignore[misc]


def _differences(found: dict[str, str], listed: dict[str, str]) -> dict[str, tuple[str | None, str | None]]:
    names = found.keys() | listed.keys()
    return {name: (listed.get(name), found.get(name)) for name in names if listed.get(name) != found.get(name)}


def _summary(kit: str, found: dict[str, str]) -> str:
    """A skipped group of tests is reported once, under its parameters' types instead of a test's number."""
    groups = {name for name, result in found.items() if result == "skipped" and re.search(r"\(.+\)$", name)}
    counts = Counter(result.partition(WITH)[0] for name, result in found.items() if name not in groups)
    told = f"{kit}: {counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped"
    return f"{told}, and {len(groups)} groups of tests" if groups else told


def test_iceberg_rest_compatibility_kit(server: FeedServer, tmp_path: Path, record_property: Record) -> None:
    jars = _jars("iceberg-kit")

    def run(catalog: str, *selected: str) -> dict[str, str]:
        properties = [
            "-Drck.local=false",
            "-Drck.requires-namespace-create=true",
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
        ]
        environ = {"CATALOG_URI": f"{server.url}/iceberg/", "CATALOG_WAREHOUSE": catalog, "AWS_REGION": "us-east-1"}
        return _results([*properties, "-cp", jars, *LAUNCHER, *selected], tmp_path / catalog, environ)

    classes = [f"--select-class=org.apache.iceberg.rest.RESTCompatibilityKit{one}CatalogTests" for one in ("", "View")]
    refusing = run("kit", *classes)
    allowing = run("kit-with-engine-gc", classes[0], f"--include-methodname={NEED_ENGINE_GC}.*")
    refused = {name for name, result in refusing.items() if result == "refused"}
    assert refused == allowing.keys(), "engine_gc=refuse refuses what these four tests do, and nothing else"
    found = refusing | _with("engine_gc=allow", allowing)
    told = _summary("Iceberg REST Compatibility Kit 1.11.0", found)
    record_property(TOLD, f"{told}; {len(refused)} of them with engine_gc=allow")
    assert _differences(found, _listed("iceberg-kit.txt")) == {}


def test_nessie_rest_api_tests(server: FeedServer, tmp_path: Path, record_property: Record) -> None:
    jars, classes = _jars("nessie-kit"), tmp_path / "classes"
    compiler = [java_program(), "-m", "jdk.compiler/com.sun.tools.javac.Main", "-cp", jars, "-d", str(classes)]
    subprocess.run([*compiler, str(HERE / "NessieApiAgainstUrl.java")], check=True)

    def run(methods: str, reports: Path) -> dict[str, str]:
        properties = [f"-Dnessie.test.base={server.url}/api", f"-Dnessie.test.methods={methods}"]
        kit = ["--select-class=headwater.conformance.NessieApiAgainstUrl", "--include-classname=.*"]
        java = [*properties, "-cp", f"{classes}:{jars}", *LAUNCHER, *kit, "--include-engine=junit-jupiter"]
        return _results(java, reports)

    by_default = run(".*", tmp_path / "default")
    _set(server, "lake", write_without_hash="refuse")
    selected = run(NEED_A_HASH, tmp_path / "refusing")
    refusing = {name: result for name, result in selected.items() if result != "skipped"}
    allowed = {name for name, result in by_default.items() if result == "failed"}
    assert allowed == refusing.keys(), "write_without_hash=allow allows what these tests expect to be refused, and nothing else"
    found = by_default | _with("write_without_hash=refuse", refusing)
    told = _summary("Nessie REST API v2 tests 0.76.3", found)
    record_property(TOLD, f"{told}; {len(allowed)} of them with write_without_hash=refuse")
    assert _differences(found, _listed("nessie-kit.txt")) == {}
