"""The options of a commit, the same for `headwater.open` and `headwater.connect`."""

from __future__ import annotations

from typing import TypedDict


class CommitOptions(TypedDict, total=False):
    author: str | None
    """This user, if left out."""
    message: str
    headers: dict[str, str] | None
    expected_head: str | None
    """Strict: any other head is a conflict."""
    base_commit: str | None
    """A conflict only where keys changed since."""
    request_id: str | None
    """The caller's key: a commit that comes again under it is answered, not repeated."""
