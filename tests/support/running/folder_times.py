"""Reports of tests become one table at the end of a run: seconds and tests per folder, longest first."""

from __future__ import annotations

from collections import Counter

import pytest


class FolderTimes:
    """A pytest plugin. Under pytest-xdist the controller gets every report, so the table covers all processes."""

    def __init__(self) -> None:
        self._seconds: Counter[str] = Counter()
        self._tests: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        folder = report.nodeid.partition("::")[0].rpartition("/")[0]
        self._seconds[folder] += report.duration
        self._tests[folder] += report.when == "call"

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if len(self._seconds) < 2:
            return
        terminalreporter.section("seconds per folder")
        for folder, seconds in self._seconds.most_common():
            terminalreporter.write_line(f"{seconds:8.1f} s {self._tests[folder]:6} tests  {folder}")
        terminalreporter.write_line(f"{self._seconds.total():8.1f} s in all, over all test processes")
