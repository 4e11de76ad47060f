"""One test run over several processes: the folder and the owner of the servers that all of them share.

The first process of a run (under pytest-xdist the controller) makes the folder and names itself in the environment, which its
workers inherit. A server belongs to that process, so it ends with the run, even when the run is killed -9.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import msgspec

from headwater.dev.processes import ProcessId, myself

FOLDER = "HEADWATER_TEST_RUN_FOLDER"
OWNER = "HEADWATER_TEST_RUN_OWNER"


def begin_run() -> None:
    """Called by every process of the run; only the first one makes anything."""
    if FOLDER in os.environ:
        return
    folder = Path(tempfile.mkdtemp(prefix="headwater-test-run-"))
    folder.chmod(0o755)  # PostgreSQL runs as another user when we are root
    os.environ[FOLDER] = str(folder)
    os.environ[OWNER] = msgspec.json.encode(myself()).decode()


def end_run() -> None:
    """The owner removes the folder; servers in it are stopped by their own watch over the owner."""
    if run_owner() == myself():
        shutil.rmtree(run_folder(), ignore_errors=True)


def run_folder() -> Path:
    return Path(os.environ[FOLDER])


def run_owner() -> ProcessId:
    return msgspec.json.decode(os.environ[OWNER], type=ProcessId)
