"""Lines that tests tell, by `record_property("told", …)`, are printed at the end of a run, whatever process ran the test."""

from __future__ import annotations

import pytest

TOLD = "told"


class ToldLines:
    """A pytest plugin. Under pytest-xdist the controller gets every report with its properties."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call":
            self._lines += [str(value) for name, value in report.user_properties if name == TOLD]

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for line in self._lines:
            terminalreporter.write_line(line)
