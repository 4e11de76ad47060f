"""What writers put into keys and messages does not reach the operator's terminal as commands or markup."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.cli.output import print_table
from headwater.cli.plain_text import plain, plain_line

TURNS_TEXT = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}


@given(st.text() | st.text("a\x00\x1b\x85\u200f\u202a\u202e\u2066\u2069\n"))
def test_no_control_character_but_tab_and_line_feed_is_left(text: str) -> None:
    assert not [one for one in plain(text) if unicodedata.category(one) == "Cc" and one not in "\t\n"]
    assert not [one for one in plain(text) if unicodedata.bidirectional(one) in TURNS_TEXT]
    assert "\n" not in plain_line(text)


def test_ordinary_text_of_any_script_stays_as_it_is() -> None:
    assert plain("Bestellungen 注文 заказы طلبات 👩‍💻\n") == "Bestellungen 注文 заказы طلبات 👩‍💻\n"


def test_escapes_are_shown_and_not_sent() -> None:
    assert plain("\x1b[2J\x9b\u202e") == "\\x1b[2J\\x9b\\u202e"


def test_markup_in_a_cell_is_text(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(["key"], [("[/red]",), ("[conceal]x[/conceal]",), ("\x1b]0;title\x07",)])
    shown = capsys.readouterr().out
    assert "[/red]" in shown and "[conceal]x[/conceal]" in shown and "\x1b]0" not in shown
