"""Parses reference paths: `main`, `main@<hash>`, `main~2`, `@<hash>^1`, `-`. Pure.

⚠ Steps without a hash (`main~2`) move with the branch, so they do not say what a writer has read: `expected` refuses them.
"""

from __future__ import annotations

import functools
import re

import msgspec

from headwater.producer.pointer_names import check_reference_name
from headwater.producer.references.reference_specs import DEFAULT_BRANCH, parse_reference_spec
from headwater.schemas.errors import InvalidInput, ReferenceNotFound

DETACHED = "DETACHED"
_PATH = re.compile(r"([^@~^*]*)(?:@([0-9a-fA-F]*))?((?:[~^*][^~^*@]*)*)")
_HASH_AND_STEPS = re.compile(r"([0-9a-fA-F]*)((?:[~^*][^~^*@]*)*)")
_HASH = re.compile(r"[0-9a-fA-F]{8,64}")
_HASH_DIGITS = 64
_REMEDY = "Write name, name@hash, name~n, name^n, name*time or @hash."


class ReferencePath(msgspec.Struct, frozen=True):
    name: str | None = None
    """None for a commit without a reference."""
    hash: str = ""
    """64 hex digits in lower case, or empty for the newest commit."""
    steps: str = ""

    @property
    def moves(self) -> bool:
        """Whether it may mean another commit a moment later."""
        return not self.hash

    @property
    def spec(self) -> str:
        """Where to read: by the commit alone where one is named, for a branch may have been assigned elsewhere since."""
        return f"{self.hash or self.name}{self.steps}"

    def expected(self) -> str | None:
        """The commit that a writer has seen, with the steps behind it; None if it does not say."""
        if self.steps and not self.hash:
            raise InvalidInput(
                f"{self.steps[:40]!r} does not say from which commit.", field="hash", remedy="Write the hash in front of it."
            )
        return f"{self.hash}{self.steps}" if self.hash else None


@functools.lru_cache(maxsize=4_096)
def parse_reference_path(text: str, field: str = "ref") -> ReferencePath:
    matched = _PATH.fullmatch(text)
    if matched is None or not text:
        raise InvalidInput(f"{text[:80]!r} names no reference.", field=field, remedy=_REMEDY)
    name, hash, steps = matched.groups()
    return reference_path(name or None, (hash or "") + steps, field)


def reference_path(name: str | None, hash: str | None, field: str = "ref") -> ReferencePath:
    """From the name and the hash, with or without steps, of a body."""
    matched = _HASH_AND_STEPS.fullmatch(hash or "")
    if matched is None:
        raise InvalidInput(f"{str(hash)[:80]!r} is no hash.", field=field, remedy=_REMEDY)
    absolute, steps = matched.groups()
    if name is not None and name.upper() == DETACHED:
        name = None
    if name is None and not absolute:
        raise InvalidInput("it names neither a reference nor a commit.", field=field, remedy=_REMEDY)
    if name is not None and name != DEFAULT_BRANCH:
        check_reference_name(name, field)
    if absolute and not _HASH.fullmatch(absolute):
        raise InvalidInput(f"{absolute[:80]!r} is no hash.", field=field, remedy="Hashes have 8 to 64 hex digits.")
    if absolute and len(absolute) < _HASH_DIGITS:
        raise ReferenceNotFound(f"there is no commit {absolute!r}.", field=field, remedy="Write all 64 digits of a hash.")
    parsed = ReferencePath(name, absolute.lower(), steps)
    if steps:
        parse_reference_spec(parsed.spec, field)  # refuses steps that are none
    return parsed
