"""The options of commits and merges, the same for `headwater.open` and `headwater.connect`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict

from headwater.producer.merging.apply_changes import MergeRules


class _Options(TypedDict, total=False):
    author: str | None
    """This user, if left out; at a server, the caller."""
    message: str
    expected_head: str | None
    """Strict: any other head is a conflict."""
    request_id: str | None
    """The caller's key: the same key again returns the first commit instead of repeating it."""


class CommitOptions(_Options, total=False):
    headers: dict[str, str] | None
    base_commit: str | None
    """A conflict only if the same keys changed since."""


class MergeOptions(_Options, total=False):
    rules: MergeRules | None
    """How each key is merged; NORMAL for all, if left out."""


def check_options(options: Mapping[str, object], kind: Any) -> None:
    """A misspelled option is an error, as with any other keyword."""
    known: frozenset[str] = kind.__optional_keys__
    if unknown := options.keys() - known:
        raise TypeError(f"unknown option {min(unknown)!r}; known are {', '.join(sorted(known))}")
