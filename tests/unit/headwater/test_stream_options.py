"""The options of `headwater stream` and the defaults of the application are the same, in seconds."""

from __future__ import annotations

from typing import Any

from headwater.cli.maintenance.stream import command
from headwater.wiring.stream import StreamOptions


def chosen(*arguments: str) -> StreamOptions:
    given: dict[str, Any] = command.make_context("stream", list(arguments)).params
    return StreamOptions(**{name: value for name, value in given.items() if name in StreamOptions.__struct_fields__})


def test_defaults_of_the_command_are_those_of_the_application() -> None:
    assert chosen() == StreamOptions()


def test_hours_and_seconds_arrive_as_seconds() -> None:
    given = ("--every", "3", "--expire-every", "2", "--files-every", "0.5", "--follow-files-every", "7")
    wanted = StreamOptions(every_seconds=3, expire_seconds=7_200, files_seconds=1_800, follow_files_seconds=7)
    assert chosen(*given) == wanted
