"""Several processes on one SQLite file: created once, and every compare-and-swap counted exactly once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from headwater.persistence.backends import open_backend

PROCESSES = 3
MOVES_EACH = 30
REALM = "shared@1"

_WORK = """
import sys, time
from headwater.persistence.backends import open_backend
from headwater.persistence.rows import ObjectRow, PointerRow
print("ready", flush=True)
sys.stdin.readline()
url, who, moves = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
backend = open_backend(url)
backend.create_schema()
backend.check_schema()
backend.add_name("shared@1", "main")
backend.reserve_pointer("shared@1", "main", PointerRow(created_at=1))
won = lost = 0
while won < moves:
    row = backend.read_pointer("shared@1", "main")
    time.sleep(0.002)  # long enough for another to come in between
    after = PointerRow(version=row.version + 1, head=bytes([who]) * 32, created_at=1)
    if backend.commit("shared@1", "main", row, after, [ObjectRow(row.version * 100 + who, "note", 1, b"x")]):
        won += 1
    else:
        lost += 1
print(lost)
backend.close()
"""


def test_processes_that_create_and_move_one_pointer_lose_no_move(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", _WORK, url, str(who), str(MOVES_EACH)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=Path(__file__).parents[2],
            text=True,
        )
        for who in range(PROCESSES)
    ]
    for worker in workers:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "ready\n"
    lost = _released_together(workers)
    assert [worker.returncode for worker in workers] == [0] * PROCESSES
    assert sum(lost) > 0, "the processes never met"
    backend = open_backend(url)
    found = backend.read_pointer(REALM, "main")
    assert found is not None
    assert found.version == 1 + PROCESSES * MOVES_EACH
    candidates = [version * 100 + who for version in range(1, found.version + 1) for who in range(PROCESSES)]
    there = sorted(backend.fetch_objects(REALM, candidates))
    assert [id // 100 for id in there] == list(range(1, found.version)), "a lost race left an object behind"
    backend.close()


def _released_together(workers: list[subprocess.Popen[str]]) -> list[int]:
    """How many races each has lost, once all are done."""
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write("go\n")
        worker.stdin.flush()
    return [int(worker.communicate(timeout=120)[0]) for worker in workers]
