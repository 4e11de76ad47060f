"""Runs the live views until they are stopped or cannot continue, and ends within seconds either way.

A faust worker that crashed, or whose event loop waits for a server, does not stop by itself: a timer ends the process.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from types import FrameType
from typing import Any

import faust

from headwater.consumers.views.faust_app import ViewsOptions, make_app
from headwater.schemas.errors import HeadwaterError

STOP_SECONDS = 4.0
FAILED = 2


def run_views(options: ViewsOptions) -> None:
    """Returns when it was stopped; raises the error after which the views could not continue."""
    failures: list[BaseException] = []

    def ended(error: BaseException) -> None:
        failures.append(error)
        _end_in_time(lambda: _say(error), FAILED)

    worker = _Worker(make_app(options, ended), loglevel="error", quiet=True, redirect_stdouts=False)
    try:
        worker.execute_from_commandline()
    except (SystemExit, Exception) as error:
        if failures:
            raise failures[0] from error
        if isinstance(error, SystemExit) and not error.code:
            return
        raise


class _Worker(faust.Worker):
    def install_signal_handlers(self) -> None:
        """⚠ Ends the process, not the event loop, which may be waiting for a server."""
        super().install_signal_handlers()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._asked_to_stop)

    def _asked_to_stop(self, number: int, frame: FrameType | None) -> None:
        _end_in_time(lambda: None, 0)
        self.loop.call_soon_threadsafe(self._on_sigterm)


def _end_in_time(say: Any, code: int) -> None:
    def end() -> None:
        say()
        os._exit(code)

    timer = threading.Timer(STOP_SECONDS, end)
    timer.daemon = True
    timer.start()


def _say(error: BaseException) -> None:
    code = f" {error.code}" if isinstance(error, HeadwaterError) else ""
    sys.stderr.write(f"error{code}: {error}\n")
    sys.stderr.flush()
