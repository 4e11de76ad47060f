"""Logs lines on stderr: time, level, message, and the request it is about; JSON, or text where a person reads it."""

from __future__ import annotations

import logging
import sys
import traceback
from typing import Any

import msgspec

from headwater.persistence.clock import MICROS
from headwater.schemas.entry_ids import time_text

ACCESS = logging.getLogger("headwater.requests")
"""One line for each slow or failed request: see `service/gate/gate.py`."""

_FIELDS = (
    *("request_id", "method", "route", "path", "status", "seconds", "realm", "code", "worker", "correlation_id"),
    *("principal", "right", "securable", "peer"),
)
_encode = msgspec.json.Encoder().encode


class JsonLines(logging.Formatter):
    """Fields come with `extra`; texts of store URLs never do."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": time_text(int(record.created * MICROS)),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        for name in _FIELDS:
            value = getattr(record, name, None)
            if value is not None:
                line[name] = value
        if record.exc_info and record.exc_info[0] is not None:
            line["error"] = "".join(traceback.format_exception(*record.exc_info))
        return _encode(line).decode()


class TextLines(logging.Formatter):
    """The same for people."""

    def format(self, record: logging.LogRecord) -> str:
        fields = " ".join(f"{name}={getattr(record, name)}" for name in _FIELDS if getattr(record, name, None) is not None)
        at = time_text(int(record.created * MICROS))[:19].replace("T", " ")
        line = f"{at} {record.levelname.lower():<7} {record.getMessage()}{'  ' + fields if fields else ''}"
        return line if not record.exc_info else f"{line}\n{self.formatException(record.exc_info)}"


def line_formatter() -> logging.Formatter:
    """Text on a terminal, JSON for what collects logs."""
    return TextLines() if sys.stderr.isatty() else JsonLines()


def set_up_logs(level: int = logging.INFO) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(line_formatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    logging.captureWarnings(True)


LOG_CONFIG: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"lines": {"()": "headwater.service.observability.logs.line_formatter"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "stream": "ext://sys.stderr", "formatter": "lines"}},
    "root": {"level": "INFO", "handlers": ["stderr"]},
    "loggers": {
        "_granian": {"level": "WARNING", "handlers": ["stderr"], "propagate": False},
        "granian.access": {"level": "WARNING", "handlers": ["stderr"], "propagate": False},
    },
}
"""For the server below us: its notes on closed connections say nothing about the feed, so only warnings are kept."""
