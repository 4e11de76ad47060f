"""Tables cut nothing, in pipes and on narrow terminals; errors are one line, or JSON where JSON was asked for."""

from __future__ import annotations

import json

import pytest
from rich.console import Console

from headwater.cli import output
from headwater.cli.output import print_table
from tests.support.fixtures.cli_runs import headwater

TOPIC = "headwater.default-03264f180c493000.commits-with-a-name-that-is-long"


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """80 columns."""
    monkeypatch.setattr(output, "Console", lambda **_: Console(width=80, force_terminal=True, color_system=None))


def test_a_pipe_gets_every_name_whole_and_on_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(["realm", "topic", "other"], [("default", TOPIC, TOPIC[::-1])])
    assert any(TOPIC in line and TOPIC[::-1] in line for line in capsys.readouterr().out.splitlines())


def test_a_narrow_terminal_gets_every_name_whole_too(terminal: None, capsys: pytest.CaptureFixture[str]) -> None:
    print_table(["realm", "topic", "other"], [("default", TOPIC, TOPIC[::-1])], title="one publisher")
    lines = capsys.readouterr().out.splitlines()
    assert f"topic  {TOPIC}" in lines and f"other  {TOPIC[::-1]}" in lines and "one publisher" in lines


def test_prose_is_wrapped_and_names_are_not(terminal: None, capsys: pytest.CaptureFixture[str]) -> None:
    print_table(["name", "meaning"], [("n" * 40, "words " * 30)], prose=["meaning"])
    lines = capsys.readouterr().out.splitlines()
    assert any("n" * 40 in line for line in lines) and max(map(len, lines)) <= 80


def test_an_error_is_json_if_json_was_requested() -> None:
    ran = headwater("--store", "sqlite:////nowhere/at/all.db", "realm", "list", "--json")
    found = json.loads(ran.err)["error"]
    assert ran.code == 2 and ran.out == "" and found["code"] and found["message"]
    usage = headwater("realm", "nonsense", "--json")
    assert json.loads(usage.err)["error"]["code"] == "USAGE"
    assert headwater("realm", "nonsense").error.startswith("error USAGE")
