"""Parses reference paths: `main`, `main@<hash>`, `main~2`, `@<hash>^1`, `-`. Pure.

⚠ Steps without a hash (`main~2`) move with the branch, so they do not say what a writer has read: `require_hash` refuses them.
Messages are Nessie's own where its clients and tests read them.
"""

from __future__ import annotations

import functools
import re

import msgspec

from headwater.producer.pointer_names import check_reference_name
from headwater.producer.references.reference_specs import DEFAULT_BRANCH, parse_reference_spec
from headwater.schemas.errors import InvalidInput, InvalidName, ReferenceNotFound

DETACHED = "DETACHED"
_PATH = re.compile(r"([^@~^*]*)(?:@([0-9a-fA-F]*))?((?:[~^*][^~^*@]*)*)")
_HASH_AND_STEPS = re.compile(r"([0-9a-fA-F]*)((?:[~^*][^~^*@]*)*)")
_HASH = re.compile(r"[0-9a-fA-F]{8,64}")
_HASH_DIGITS = 64
NAME_RULE = (
    "Reference name must start with a letter, followed by letters, digits, one of the ./_- characters, "
    "not end with a slash or dot, not contain '..'"
)
_REMEDY = "Write name, name@hash, name~n, name^n, name*time or @hash."


class ReferencePath(msgspec.Struct, frozen=True):
    name: str | None = None
    """None for a commit without a reference."""
    hash: str = ""
    """8 to 64 hex digits in lower case, or empty for the newest commit. Only one of 64 digits is a commit's."""
    steps: str = ""

    @property
    def is_plain(self) -> bool:
        """Whether it names a commit by itself, so that nothing must be read to know which."""
        return len(self.hash) == _HASH_DIGITS and not self.steps

    @property
    def is_head(self) -> bool:
        return not self.hash and not self.steps

    @property
    def is_whole(self) -> bool:
        return len(self.hash) == _HASH_DIGITS

    @property
    def moves(self) -> bool:
        """Whether it may mean another commit a moment later."""
        return not self.hash

    @property
    def spec(self) -> str:
        """Where to read: by the commit alone where one is named, for a branch may have been assigned elsewhere since."""
        return f"{self.hash or self.name}{self.steps}"

    def require_start(self, subject: str) -> None:
        """Checks a reader's reference: a commit without a reference says where to begin."""
        if self.name is None:
            self.require_hash(subject)

    def require_hash(self, subject: str) -> None:
        """Checks a writer's reference: it names the commit that the writer has seen."""
        if self.hash:
            return
        fault = "must contain a starting commit ID." if self.steps else "must be provided."
        raise InvalidInput(f"{subject} {fault}", field="hash", remedy="Write name@hash, with or without steps after it.")


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
        raise InvalidInput(f"{str(hash)[:80]!r} is not a hash.", field=field, remedy=_REMEDY)
    absolute, steps = matched.groups()
    if name is not None and name.upper() == DETACHED:
        name = None
    if name is not None and name != DEFAULT_BRANCH:
        _check_name(name, field)
    if absolute and not _HASH.fullmatch(absolute):
        raise InvalidInput(f"{absolute[:80]!r} is not a hash.", field=field, remedy="Hashes have 8 to 64 hex digits.")
    parsed = ReferencePath(name, absolute.lower(), steps)
    if steps:
        parse_reference_spec(f"{name or DEFAULT_BRANCH}{steps}", field)  # refuses steps that are none
    return parsed


def _check_name(name: str, field: str) -> None:
    try:
        check_reference_name(name, field)
    except InvalidName as error:
        raise InvalidName(f"{NAME_RULE}: {name[:80]!r}.", field=field, remedy=error.remedy) from None


def commit_not_found(hash: str) -> ReferenceNotFound:
    return ReferenceNotFound(f"Commit '{hash}' not found", field="hash", remedy="Write all 64 digits of a hash.")
