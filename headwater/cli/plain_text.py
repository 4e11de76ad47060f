"""Text from outside as a terminal may show it: control characters and text direction overrides become visible escapes.

⚠ Keys, messages and names are chosen by writers. Shown as they are, they could clear the screen or rewrite its lines.
"""

from __future__ import annotations

import re
import unicodedata

_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
"""All control characters but tab and line feed, and what turns the direction of text around."""


def plain(text: str) -> str:
    return _UNSAFE.sub(_escaped, text)


def plain_line(text: str) -> str:
    """The same on one line."""
    return plain(text).replace("\n", "\\n").replace("\t", " ")


def _escaped(found: re.Match[str]) -> str:
    character = found.group()
    code = ord(character)
    return f"\\x{code:02x}" if unicodedata.category(character) == "Cc" else f"\\u{code:04x}"
