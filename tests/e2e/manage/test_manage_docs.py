"""docs/management.md against what runs: every route with its right, and the examples as they stand."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from headwater.service.manage.route import PREFIX
from headwater.service.manage.routes import MANAGE
from tests.support.servers.feed_server import feed_server

DOCS = Path(__file__).parents[3] / "docs" / "management.md"


def test_the_table_lists_exactly_the_routes_and_their_rights() -> None:
    listed = re.findall(r"^\| (\w+) \| `(/[^`]*)` \| `([\w.]+)` over ", DOCS.read_text(), re.MULTILINE)
    assert listed == [
        (route.method, route.path.removeprefix(PREFIX), str(route.needs.right))
        for route in MANAGE.routes
        if route.needs is not None and not route.needs.is_public
    ]


def test_the_examples_run(tmp_path: Path) -> None:
    (shell,) = re.findall(r"```sh\n(.*?)```", DOCS.read_text(), re.DOTALL)
    (python,) = re.findall(r"```python\n(.*?)```", DOCS.read_text(), re.DOTALL)
    with feed_server(f"sqlite:///{tmp_path}/lake.db") as server:
        shell = shell.replace("http://127.0.0.1:8181", server.url)
        run = subprocess.run(
            ["bash", "-e", "-c", shell], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False, env=os.environ
        )
        assert run.returncode == 0 and '"orders"' in run.stdout, run.stderr
        # Under --dev no token is asked for; the second catalog must not meet the first, and `main~1` needs a history.
        python = python.replace('"http://127.0.0.1:8181", client_id="…", client_secret="…"', f'"{server.url}"')
        python = python.replace('create_catalog("sales")', 'create_catalog("sales2")').replace("main~1", "main")
        exec(compile(python, str(DOCS), "exec"), {})
