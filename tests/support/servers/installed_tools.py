"""Tools that tests need and that no Python package brings: installed once, into the cache that the dev servers' jars lie in."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from headwater.dev.state import locked, made_whole
from headwater.settings import load_settings


def installed(name: str, install: Callable[[Path], None]) -> Path:
    """The first caller installs it, others wait."""
    cache = Path(load_settings().jar_cache_dir).expanduser()
    folder = cache / name
    if not folder.exists():
        with locked(cache / "locks" / name):
            if not folder.exists():
                with made_whole(folder) as unfinished:
                    install(unfinished)
    return folder


def run_install(command: list[str], remedy: str, folder: Path, **environ: str) -> None:
    assert shutil.which(command[0]) is not None, remedy
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, **environ}, capture_output=True, text=True, timeout=840, check=False
    )
    assert done.returncode == 0, done.stderr[-2_000:]
