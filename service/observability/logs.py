"""Logs lines on stderr: time, level, message, and the request it is about; JSON, or text where a person reads it.

A log file, where one is set, gets the same lines as JSON. ⚠ Nothing that a caller has written makes a line of its own.
"""

from __future__ import annotations

import json
import logging
import sys
import traceback
from typing import Any

import msgspec

from headwater.persistence.clock import MICROS
from headwater.schemas.entry_ids import time_text
from headwater.service.observability.log_files import STDERR_ALONE, LogFile, RotatingLog

ACCESS = logging.getLogger("headwater.requests")
"""One line for each slow or failed request: see `service/gate/gate.py`."""

_FIELDS = (
    *("request_id", "method", "route", "path", "status", "seconds", "realm", "code", "worker", "correlation_id"),
    *("principal", "right", "securable", "peer", "service", "names", "plan_id"),
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
        try:
            return _encode(line).decode()
        except UnicodeEncodeError:  # half a pair of surrogates, e.g. of a path that is no UTF-8
            return json.dumps(line)


class TextLines(logging.Formatter):
    """The same for people."""

    def format(self, record: logging.LogRecord) -> str:
        given = ((name, getattr(record, name, None)) for name in _FIELDS)
        fields = " ".join(f"{name}={_on_one_line(str(value))}" for name, value in given if value is not None)
        at = time_text(int(record.created * MICROS))[:19].replace("T", " ")
        line = f"{at} {record.levelname.lower():<7} {_on_one_line(record.getMessage())}"
        line += f"  {fields}" if fields else ""
        return line if not record.exc_info else f"{line}\n{self.formatException(record.exc_info)}"


def line_formatter() -> logging.Formatter:
    """Text on a terminal, JSON for what collects logs."""
    return TextLines() if sys.stderr.isatty() else JsonLines()


def _on_one_line(text: str) -> str:
    """⚠ With what would begin a line, or steer a terminal, written out."""
    return text if text.isprintable() else "".join(one if one.isprintable() else repr(one)[1:-1] for one in text)


def set_up_logs(file: LogFile = STDERR_ALONE, level: int = logging.INFO) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(line_formatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    if file.path:
        in_file = RotatingLog(file)
        in_file.setFormatter(JsonLines())
        root.addHandler(in_file)
    root.setLevel(level)
    logging.captureWarnings(True)


def log_config(file: LogFile) -> dict[str, Any]:
    """For the server below us: its notes on closed connections say nothing about the feed, so only warnings are kept."""
    handlers: dict[str, Any] = {
        "stderr": {"class": "logging.StreamHandler", "stream": "ext://sys.stderr", "formatter": "lines"}
    }
    if file.path:
        handlers["file"] = {"()": RotatingLog, "file": file, "formatter": "json"}
    quiet = {"level": "WARNING", "handlers": list(handlers), "propagate": False}
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"lines": {"()": line_formatter}, "json": {"()": JsonLines}},
        "handlers": handlers,
        "root": {"level": "INFO", "handlers": list(handlers)},
        "loggers": {"_granian": quiet, "granian.access": quiet},
    }
