"""Every example of docs/consumers.md is run, against a real server and a real broker."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import headwater
from tests.support.fixtures.publisher_runs import options, publish_rest
from tests.support.servers.served import served

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "consumers.md").read_text()
EXAMPLES = re.findall(r"^```(python|sh)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


class Places(NamedTuple):
    server: str
    kafka: str


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory, kafka_bootstrap: str) -> Iterator[Places]:
    url = f"sqlite:///{tmp_path_factory.mktemp('docs')}/lake.db"
    with served(url) as server:
        with headwater.open(url) as engine:
            lake = engine.realm().catalog("lake")
            lake.branch().commit([headwater.Put(("first",), headwater.IcebergTable("s3://1"))])
            lake.create_branch("dev").commit([headwater.Put(("second",), headwater.IcebergTable("s3://2"))])
            lake.merge("dev")
            publish_rest(engine.store, options(kafka_bootstrap))
        yield Places(server.url, kafka_bootstrap)


def test_the_page_has_examples_of_both_kinds() -> None:
    kinds = [kind for kind, _ in EXAMPLES]
    assert kinds.count("python") >= 6 and kinds.count("sh") >= 2


@pytest.mark.parametrize("text", [text for kind, text in EXAMPLES if kind == "python"])
def test_a_python_example_runs(places: Places, text: str) -> None:
    names: dict[str, object] = {"SERVER": places.server, "KAFKA": places.kafka, "headwater": headwater}
    exec(compile(text, "docs/consumers.md", "exec"), names)


@pytest.mark.parametrize("text", [text for kind, text in EXAMPLES if kind == "sh"])
def test_a_command_example_runs(places: Places, tmp_path: Path, text: str) -> None:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    ran = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", text],
        cwd=tmp_path,
        env={**os.environ, "PATH": path, "SERVER": places.server, "KAFKA": places.kafka},
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr
