"""Content keys as one text in paths and queries, and back. Pure.

Elements are separated by dots. A text that begins with a dot is escaped: `*.` is a dot, `**` a star, `*{` a slash, `*}` a
backslash, `*[` a per cent sign. Older clients write U+001D, or NUL, for a dot inside an element.
"""

from __future__ import annotations

from headwater.schemas.change import KeyPath
from headwater.schemas.errors import InvalidInput

_ESCAPED = {".": "*.", "*": "**", "/": "*{", "\\": "*}", "%": "*["}
_UNESCAPED = {escaped[1]: plain for plain, escaped in _ESCAPED.items()}
_NEEDS_ESCAPES = frozenset("./\\%")
_OLD_DOTS = str.maketrans({"\x1d": ".", "\x00": "."})
_NEW_DOTS = str.maketrans({".": "\x1d", "\x00": "\x1d"})
PATH_CHARACTERS_MAX = 4_000


def parse_key_path(text: str, field: str = "key") -> KeyPath:
    if not text or len(text) > PATH_CHARACTERS_MAX:
        raise _no_key(text, field)
    elements = _escaped_elements(text[1:], field) if text[0] == "." else [one.translate(_OLD_DOTS) for one in text.split(".")]
    if not all(elements):
        raise _no_key(text, field)
    return tuple(elements)


def key_path(key: KeyPath) -> str:
    """As a client of specification 2.2 writes it."""
    if not any(character in _NEEDS_ESCAPES for element in key for character in element):
        return ".".join(key)
    return "".join("." + "".join(_ESCAPED.get(character, character) for character in element) for element in key)


def old_key_path(key: KeyPath) -> str:
    """As filters see `encodedKey` and `namespace`."""
    return ".".join(element.translate(_NEW_DOTS) for element in key)


def _escaped_elements(text: str, field: str) -> list[str]:
    elements, element = [], ""
    characters = iter(text)
    for character in characters:
        if character == ".":
            elements.append(element)
            element = ""
        elif character == "*":
            element += _unescaped(next(characters, ""), text, field)
        else:
            element += character
    return [*elements, element]


def _unescaped(character: str, text: str, field: str) -> str:
    if character not in _UNESCAPED:
        raise InvalidInput(f"*{character} is not an escape in {text[:80]!r}.", field=field, remedy="Write *. ** *{ *} or *[.")
    return _UNESCAPED[character]


def _no_key(text: str, field: str) -> InvalidInput:
    return InvalidInput(f"{text[:80]!r} is not a content key.", field=field, remedy="Write its elements with dots between.")
