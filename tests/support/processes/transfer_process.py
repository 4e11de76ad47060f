"""A process that exports or imports a realm and is killed (-9) at a given point.

Export: `cut`, the realm is pinned and nothing is written; `objects`, half of the file is written; `renamed`, all but its name.
Import: `names`, `objects`, `pointers`, in the middle of these; `compared`, every row is there, and ACTIVE is not said yet.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from headwater.persistence.realms.realms import Realms
from headwater.persistence.store import open_store
from headwater.streaming.reachability.retained_identifiers import Identifiers
from headwater.streaming.transfer import exporting, file_format
from headwater.streaming.transfer.exporting import export_realm
from headwater.streaming.transfer.importing import import_realm

COPY = "copy"


def die(*_: object, **__: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class Countdown:
    def __init__(self, calls: int) -> None:
        self._left = calls

    def __call__(self) -> None:
        self._left -= 1
        if self._left == 0:
            die()


def killed_export(url: str, file: str, moment: str) -> None:
    exporting.OBJECTS_PER_FETCH = 5
    seen = Countdown(6)

    def progress(what: str, _count: int) -> None:
        if what == "entries" and moment == "cut":
            die()
        if what == "objects" and moment == "objects":
            seen()

    if moment == "renamed":
        Path.rename = die  # type: ignore[method-assign, assignment]
    with open_store(url) as store:
        export_realm(store, "shop", Path(file), Identifiers(), on_progress=progress)


def killed_import(url: str, file: str, moment: str) -> None:
    calls = {"names": "add_name", "objects": "write_objects", "pointers": "reserve_pointer"}
    with open_store(url) as store:
        if moment in calls:
            inner, seen = getattr(store.backend, calls[moment]), Countdown(3)

            def counted(*arguments: object) -> object:
                seen()
                return inner(*arguments)

            setattr(store.backend, calls[moment], counted)
        else:
            Realms.finish_loading = die  # type: ignore[method-assign, assignment]
        import_realm(store, Path(file), COPY, Identifiers())


def run_and_be_killed(what: str, url: str, file: Path | str, moment: str) -> None:
    """Fails unless the process was really killed."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.processes.transfer_process", what, url, str(file), moment],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == -signal.SIGKILL, f"{done.returncode}: {done.stdout}{done.stderr}"


if __name__ == "__main__":
    file_format.FRAME_BYTES = 2_000
    {"export": killed_export, "import": killed_import}[sys.argv[1]](*sys.argv[2:])
