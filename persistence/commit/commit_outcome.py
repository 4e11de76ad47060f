"""What became of a request: its entry, nothing to do, or unknown."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from headwater.persistence.log.log_entry import LogRecord
from headwater.schemas.errors import CommitOutcomeUnknown, OutcomeUnknown


class CommitOutcome(msgspec.Struct, frozen=True, gc=False):
    """What became of a request: its entry, or None when there was nothing to do, and the head that says so."""

    pointer: str
    logged: LogRecord | None
    head_seq: int
    head_commit: bytes
    replayed: bool = False
    """The request was committed before, under the same request id, as `head_seq`; its entry is None if it has expired since."""

    @property
    def seq(self) -> int:
        """Of the entry; of the head where there was nothing to do."""
        return self.head_seq if self.logged is None else self.logged.entry.seq

    @property
    def changed(self) -> bool:
        return self.logged is not None or self.replayed


def outcome_of(logged: LogRecord) -> CommitOutcome:
    """⚠ Not `replayed`: this is the first outcome of this very request, and no caller has seen it yet."""
    return CommitOutcome(logged.entry.pointer, logged, logged.entry.seq, logged.commit)


def as_unknown(
    pointer: str, answer: CommitOutcome | Exception, drafted: Collection[bytes], unknown: OutcomeUnknown
) -> CommitOutcome | Exception:
    logged = answer.logged if isinstance(answer, CommitOutcome) else None
    if logged is not None and logged.entry_id not in drafted:
        return answer
    return CommitOutcomeUnknown(
        f"{pointer}: {unknown.message}",
        remedy="Look for the entry id in the log before committing again.",
        entry_id=logged.entry_id.hex() if logged is not None else None,
    )
