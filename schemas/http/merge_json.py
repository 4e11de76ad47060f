"""JSON bodies of merges, transplants and diffs: the server encodes them, clients decode them, the OpenAPI shows them."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from headwater.schemas.change import KeyPath, Value

KEYS_MAX = 10_000
COMMITS_MAX = 10_000


class ContentInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What a key holds."""

    type: str
    content_id: str
    value: Value


class DiffEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One key at which two states differ; null is absent."""

    key: KeyPath
    before: ContentInfo | None
    after: ContentInfo | None


class DiffAnswer(msgspec.Struct, frozen=True, kw_only=True):
    before: str
    """The commit that `before` named, so that later pages compare the same two states."""
    after: str
    diff: list[DiffEntry]
    next_token: str | None = None


class KeyRuleBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How one key is merged."""

    key: KeyPath
    behavior: str = "NORMAL"
    """NORMAL, FORCE or DROP."""
    expected: ContentInfo | UnsetType | None = UNSET
    """What the target must hold for this rule to be right; null is absent."""
    resolved: ContentInfo | UnsetType | None = UNSET
    """The content that the target gets instead of the source's."""


class IntoBranch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    into: str | None = None
    """The branch that takes the changes; the default branch, if left out."""
    author: str | None = None
    """Taken only where no token is asked for; else the author is the caller."""
    message: str = ""
    default: str = "NORMAL"
    """The rule for all other keys: NORMAL, FORCE or DROP."""
    keys: Annotated[list[KeyRuleBody], Meta(max_length=KEYS_MAX)] = []
    expected_head: str | None = None
    """Refuse unless the branch is at this commit."""


class MergeBody(IntoBranch, frozen=True, kw_only=True, forbid_unknown_fields=True):
    source: str
    """A branch, tag or commit, as `dev`, `dev~2` or a commit id."""


class TransplantBody(IntoBranch, frozen=True, kw_only=True, forbid_unknown_fields=True):
    commits: Annotated[list[str], Meta(min_length=1, max_length=COMMITS_MAX)]
    """Oldest first."""


class ConflictInfo(msgspec.Struct, frozen=True, kw_only=True):
    kind: str
    message: str


class MergedKeyInfo(msgspec.Struct, frozen=True, kw_only=True):
    key: KeyPath
    verdict: str
    """keep, take, conflict, unexpected or other_content."""
    conflict: ConflictInfo | None = None


class MergePreview(msgspec.Struct, frozen=True, kw_only=True):
    """What a merge would do to each key."""

    base: str | None
    """The newest commit of both sides; null is the empty state."""
    already_merged: bool
    keys: list[MergedKeyInfo]
