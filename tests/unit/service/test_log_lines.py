"""Logs are JSON for machines and text for people."""

from __future__ import annotations

import io
import json
import logging
import sys

import pytest

from headwater.service.observability.logs import line_formatter


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def line(monkeypatch: pytest.MonkeyPatch, stderr: io.StringIO) -> str:
    monkeypatch.setattr(sys, "stderr", stderr)
    record = logging.LogRecord("headwater", logging.WARNING, "file", 1, "slow %s", ("request",), None)
    record.status = 200
    return line_formatter().format(record)


def test_a_terminal_gets_text(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = line(monkeypatch, Terminal())
    assert shown.endswith("warning slow request  status=200") and not shown.startswith("{")


def test_everything_else_gets_json(monkeypatch: pytest.MonkeyPatch) -> None:
    assert json.loads(line(monkeypatch, io.StringIO()))["message"] == "slow request"
