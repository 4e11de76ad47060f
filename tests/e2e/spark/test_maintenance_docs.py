"""The commands of docs/maintenance.md run as they stand, in order, on a store with an old history."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from headwater.demo.backdated_history import write_backdated_history
from headwater.persistence.store import open_store
from headwater.streaming.runs.runs import Runs

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "maintenance.md").read_text()
EXAMPLES = re.findall(r"^```sh\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_the_commands_of_the_page_run_and_remove_what_is_old(tmp_path: Path) -> None:
    assert EXAMPLES, "the page has no examples"
    past = write_backdated_history(tmp_path, days=60)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    for text in EXAMPLES:
        ran = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", text],
            cwd=tmp_path,
            env={**os.environ, "PATH": path, "STORE": past.url},
            capture_output=True,
            text=True,
        )
        assert ran.returncode == 0, ran.stderr
    with open_store(past.url) as store:
        records = Runs(store.backend, store.clock).list()
    done = {(record.operation, record.dry_run): record.totals() for record in records}
    assert done["sweep", False].purged == done["sweep", True].would_purge > len(past.abandoned) // 2
    assert ("check", False) in done and all(record.status == "DONE" for record in records)
