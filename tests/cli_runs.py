"""Arguments enter; what the `headwater` command prints and its exit code leave, through the `main` that the script calls."""

from __future__ import annotations

import io
import json
import sys
from contextlib import redirect_stderr, redirect_stdout
from typing import Any, NamedTuple
from unittest import mock

from headwater.cli import main


class CliRun(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        assert self.code == 0, self.err
        return json.loads(self.out)

    @property
    def error(self) -> str:
        """The one line of a refusal."""
        assert self.code == 2, f"exit code {self.code}: {self.out}{self.err}"
        assert self.out == "" and self.err.count("\n") == 1 and "Traceback" not in self.err, self.err
        return self.err.strip()


def headwater(*arguments: str, stdin: str = "") -> CliRun:
    out, err = io.StringIO(), io.StringIO()
    code: Any = 0
    with (
        mock.patch.object(sys, "argv", ["headwater", *arguments]),
        mock.patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode()))),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as ended:
            code = ended.code
    return CliRun(code if isinstance(code, int) else 0, out.getvalue(), err.getvalue())
