"""Every example of the README is run: what is written there works as it stands. Links and commands are checked on all pages."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import NamedTuple

import pytest

from headwater.cli.command_docs import commands_markdown
from headwater.cli.main import COMMANDS
from tests.support.fixtures.cli_runs import headwater

ROOT = Path(__file__).resolve().parents[3]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
LINKED = [*PAGES, ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs" / "engines").glob("*.md"))]
RUN = [ROOT / "README.md", ROOT / "docs" / "merging.md", ROOT / "docs" / "observability.md"]
"""Pages whose examples need nothing but the embedded store."""
_BLOCK = re.compile(r"^```(python|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_ANYTHING = "…"


class Example(NamedTuple):
    where: str
    language: str
    text: str


def examples() -> list[Example]:
    found = []
    for page in RUN:
        text = page.read_text()
        for match in _BLOCK.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            found.append(Example(f"{page.relative_to(ROOT)}:{line}", match.group(1), match.group(2)))
    return found


EXAMPLES = examples()
CONNECT = 'headwater.connect("http://127.0.0.1:8181", client_id="…", client_secret="…")'


@pytest.mark.parametrize("example", [one for one in EXAMPLES if one.language == "python"], ids=lambda one: str(one.where))
def test_every_python_example_runs(
    example: Example, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.chdir(tmp_path)
    text = example.text
    if CONNECT in text:  # to a real server, on whose catalog `lake` the example has a branch `dev`
        request.getfixturevalue("shared_lake").create_branch("dev")
        text = text.replace(CONNECT, f'headwater.connect("{request.getfixturevalue("shared_feed").url}")')
    exec(compile(text, example.where, "exec"), {"__name__": "__main__"})


@pytest.mark.parametrize("example", [one for one in EXAMPLES if one.language == "console"], ids=lambda one: str(one.where))
def test_every_console_example_prints_the_shown_output(
    example: Example, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    for step in example.text.removeprefix("$ ").split("\n$ "):
        command, _, expected = step.strip("\n").partition("\n")
        program, *arguments = shlex.split(command)
        assert program == "headwater", f"{example.where}: only the headwater command is run here, not {program}"
        run = headwater(*arguments)
        assert shown(expected).search(run.out + run.err), f"{example.where}: {command}\n{run.out}{run.err}"
        assert run.code == (2 if expected.startswith("error ") else 0), f"{command}: {run.err}"


def shown(expected: str) -> re.Pattern[str]:
    """What must be in the output, where `…` stands for anything."""
    return re.compile(".*?".join(re.escape(part.strip()) for part in expected.split(_ANYTHING)), re.DOTALL)


def test_the_readme_has_examples_of_both_kinds() -> None:
    assert {one.language for one in EXAMPLES if one.where.startswith("README")} == {"python", "console"}


def test_the_two_commands_are_on_the_first_screen() -> None:
    first_screen = (ROOT / "README.md").read_text().splitlines()[:20]
    assert any(line.startswith("make demo") for line in first_screen)
    assert any(line.startswith("make test") for line in first_screen)


def test_every_command_that_the_readme_shows_exists() -> None:
    shown_commands = re.findall(r"^(?:\$ )?headwater (?:--store \S+ )?([a-z]+)", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert len(shown_commands) > 10 and set(shown_commands) <= COMMANDS.keys()


@pytest.mark.parametrize("page", LINKED, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_to_a_file_leads_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#:]+?)(?:#[^)]*)?\)", page.read_text())
    assert not [link for link in links if not (page.parent / link).exists()]


def headings(page: Path) -> set[str]:
    """The anchors that GitHub gives to the headings of a page."""
    lines = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", line.strip().lower()).replace(" ", "-") for line in lines}


@pytest.mark.parametrize("page", LINKED, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_to_a_section_leads_to_a_heading(page: Path) -> None:
    links = re.findall(r"\]\(([^)#:]*)#([^)]+)\)", page.read_text())
    assert not [it for it in links if it[1] not in headings(page.parent / it[0] if it[0] else page)]


def test_every_page_is_listed_in_the_readme() -> None:
    readme = (ROOT / "README.md").read_text()
    assert not [page.name for page in PAGES[1:] if f"docs/{page.name}" not in readme]


def test_the_page_of_commands_matches_their_help() -> None:
    page = (ROOT / "docs" / "commands.md").read_text()
    assert page == commands_markdown(), "run `python -m headwater.cli.command_docs > docs/commands.md`"
