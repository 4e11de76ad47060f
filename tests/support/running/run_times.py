"""Reports of tests become two tables at the end of a run: seconds and tests per folder, and the files that took longest."""

from __future__ import annotations

from collections import Counter

import pytest

FILES_SHOWN = 10


class RunTimes:
    """A pytest plugin. Under pytest-xdist the controller gets every report, so the tables cover all processes."""

    def __init__(self) -> None:
        self._seconds: Counter[str] = Counter()
        self._tests: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        file = report.nodeid.partition("::")[0]
        self._seconds[file] += report.duration
        self._tests[file] += report.when == "call"

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if len(self._seconds) < 2:
            return
        _table(terminalreporter, "seconds per folder", _per_folder(self._seconds), _per_folder(self._tests))
        terminalreporter.write_line(f"{self._seconds.total():8.1f} s in all, over all test processes")
        _table(
            terminalreporter, "seconds of the longest files", Counter(dict(self._seconds.most_common(FILES_SHOWN))), self._tests
        )


def _per_folder(of_files: Counter[str]) -> Counter[str]:
    folders: Counter[str] = Counter()
    for file, number in of_files.items():
        folders[file.rpartition("/")[0]] += number
    return folders


def _table(terminalreporter: pytest.TerminalReporter, title: str, seconds: Counter[str], tests: Counter[str]) -> None:
    terminalreporter.section(title)
    for name, taken in seconds.most_common():
        terminalreporter.write_line(f"{taken:8.1f} s {tests[name]:6} tests  {name}")
