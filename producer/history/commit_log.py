"""Lists a commit and its ancestors, newest first, in pages: what `git log` shows of a branch.

Unlike a pointer's log, which tells every move of one pointer, this follows the commits over the bases of branches. The end of a
page says whether more comes, whether history ends there, or whether it was cut.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from headwater.persistence.log.log_entry import LogRecord, change_of
from headwater.persistence.store import RealmKernel
from headwater.producer.history.lineage import Lineage
from headwater.producer.page_tokens import check_limit, make_token, read_token
from headwater.producer.pointer_names import parse_reference_pointer
from headwater.schemas.change import Change
from headwater.schemas.errors import CursorExpired, InvalidInput, ObjectNotFound

PAGE_COMMITS_MAX = 1_000


class LogEnd(StrEnum):
    MORE = "more"
    ROOT = "root"
    """There was nothing before the last commit of this page."""
    CUT = "cut"
    """There was more once; it has expired."""


class CommitLogPage(msgspec.Struct, frozen=True):
    commits: list[Change]
    end: LogEnd
    next_token: str | None


class LogPosition(msgspec.Struct, frozen=True, array_like=True):
    entry_id: bytes
    """Of the last commit that was given out."""


class CommitLog:
    """The commits of one catalog."""

    def __init__(self, kernel: RealmKernel, catalog_id: int) -> None:
        self._kernel = kernel
        self._catalog_id = catalog_id
        self._lineage = Lineage(kernel)

    def page(self, newest: LogRecord, *, token: str | None = None, limit: int = 100) -> CommitLogPage:
        """A token goes on behind the last commit of its page, wherever the branch is by now."""
        check_limit(limit, PAGE_COMMITS_MAX)
        here, include_self = (newest, True) if token is None else (self._at(token), False)
        found: list[LogRecord] = []
        end = LogEnd.ROOT
        try:
            for commit in self._lineage.backward(here, include_self=include_self):
                if len(found) == limit:
                    end = LogEnd.MORE
                    break
                found.append(commit)
        except (CursorExpired, ObjectNotFound):
            end = LogEnd.CUT
        name = self._kernel.realm_name
        next_token = make_token(LogPosition(found[-1].entry_id)) if end is LogEnd.MORE else None
        return CommitLogPage([change_of(commit, name) for commit in found], end, next_token)

    def _at(self, token: str) -> LogRecord:
        position = read_token(token, LogPosition)
        try:
            logged = self._kernel.walk.verified_header(position.entry_id)
        except ObjectNotFound:
            raise CursorExpired(
                "the history after the page token has expired.", field="page_token", remedy="Start again without a token."
            ) from None
        named = parse_reference_pointer(logged.entry.pointer)
        if named is None or named.catalog_id != self._catalog_id:
            raise InvalidInput("the token is of another catalog.", field="page_token", remedy="Start again without a token.")
        return logged
