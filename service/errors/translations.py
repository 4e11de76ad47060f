"""Title, sentence and remedy of an error in a language; the code is never translated.

English is complete by construction: an error's own words, and its title from its name. Every other language is one file,
`<tag>.toml`, with a table for each code: `title`, `detail` and, where something can be done, `remedy`. A sentence may name
`{field}` and the facts of its error. What a file leaves out stays English.
"""

from __future__ import annotations

import re
import string
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import msgspec

from headwater.schemas.errors import HeadwaterError, InvalidInput

ENGLISH = "en"
FOLDER = Path(__file__).parent
_WORDS = re.compile(r"(?<=[a-z])(?=[A-Z])")


class Wording(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    title: str
    detail: str = ""
    remedy: str | None = None


class LocalizedError(msgspec.Struct, frozen=True):
    """An error in words."""

    title: str
    detail: str
    remedy: str | None
    language: str


Catalogue = dict[str, Wording]


def localize(error: HeadwaterError, language: str = ENGLISH, folder: str = "") -> LocalizedError:
    wording = None if language == ENGLISH else catalogues(folder).get(language, {}).get(error.code)
    if wording is None:
        return LocalizedError(english_title(type(error)), error.message, error.remedy, ENGLISH)
    words = {"field": error.field or "", **error.facts}
    detail = _filled(wording.detail, words) or error.message
    remedy = None if error.remedy is None and wording.remedy is None else _filled(wording.remedy or "", words) or error.remedy
    return LocalizedError(wording.title, detail, remedy, language)


def english_title(kind: type[HeadwaterError]) -> str:
    return _WORDS.sub(" ", kind.__name__).capitalize()


@cache
def catalogues(folder: str = "") -> dict[str, Catalogue]:
    """All languages but English, by tag; those of an operator's own folder win."""
    found: dict[str, Catalogue] = {}
    for place in (FOLDER, *([Path(folder)] if folder else [])):
        for file in sorted(place.glob("*.toml")):
            found[file.stem.lower()] = read_catalogue(file)
    return found


def read_catalogue(file: Path) -> Catalogue:
    try:
        return msgspec.convert(tomllib.loads(file.read_text()), Catalogue)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise InvalidInput(
            f"{file.name} is not a message catalogue: {error}.",
            field="messages_dir",
            remedy="One table for each code, with a title.",
        ) from error


def error_kinds(kind: type[HeadwaterError] = HeadwaterError) -> Iterator[type[HeadwaterError]]:
    """The whole tree of schemas/errors.py, from the root on; errors of plug-ins keep their own words."""
    yield kind
    for below in kind.__subclasses__():
        if below.__module__ == HeadwaterError.__module__:
            yield from error_kinds(below)


def english_catalogue() -> Catalogue:
    """What a translator begins with."""
    return {kind.code: Wording(title=english_title(kind)) for kind in reversed(list(error_kinds()))}


class _Lenient(string.Formatter):
    """A fact that an error does not carry is left out; nothing but names is looked up."""

    def get_field(self, field_name: str, args: object, kwargs: object) -> tuple[object, str]:
        found = kwargs.get(field_name, "…") if isinstance(kwargs, dict) else "…"
        return found, field_name


def _filled(text: str, words: Mapping[str, object]) -> str:
    return _Lenient().vformat(text, (), words)
