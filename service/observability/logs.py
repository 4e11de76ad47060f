"""Logs JSON lines on stderr: time, level, message, and the request it is about."""

from __future__ import annotations

import logging
import sys
import traceback
from typing import Any

import msgspec

from headwater.schemas.entry_ids import time_text

ACCESS = logging.getLogger("headwater.requests")
"""One line for each request that is worth one: see `Door`."""

_FIELDS = (
    *("request_id", "method", "route", "path", "status", "seconds", "realm", "code", "worker", "correlation_id"),
    *("principal", "right", "securable", "peer"),
)
_encode = msgspec.json.Encoder().encode


class JsonLines(logging.Formatter):
    """Fields come with `extra`; texts of store URLs never do."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": time_text(int(record.created * 1_000_000)),
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


def set_up_logs(level: int = logging.INFO) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    logging.captureWarnings(True)


LOG_CONFIG: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"json": {"()": "headwater.service.observability.logs.JsonLines"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "stream": "ext://sys.stderr", "formatter": "json"}},
    "root": {"level": "INFO", "handlers": ["stderr"]},
    "loggers": {
        "_granian": {"level": "WARNING", "handlers": ["stderr"], "propagate": False},
        "granian.access": {"level": "WARNING", "handlers": ["stderr"], "propagate": False},
    },
}
"""For the server below us: its notes on closed connections say nothing about the feed, so only warnings are kept."""
