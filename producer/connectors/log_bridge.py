"""Follows a source that has a log: each of its commits becomes one commit here, once and in order.

⚠ The position row names a commit before it is committed here (see `source_positions`). After a crash the branch's log decides
whether it landed. A commit whose row was written and that did not land is tried again under the same request id, so that a
slow predecessor and its successor cannot both land it.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator

import msgspec

from headwater.persistence.store import RealmKernel
from headwater.producer.connectors.bounded_listing import ListingBounds
from headwater.producer.connectors.bridge_plan import Held, plan_bridge
from headwater.producer.connectors.connector_records import Connector
from headwater.producer.connectors.destination import DestinationBranch, Seen
from headwater.producer.connectors.reconcile_jobs import Tally
from headwater.producer.connectors.source_positions import Pending, SourcePosition
from headwater.producer.connectors.source_spi import LogSource, SourceCommit, SourceContent, SourceState
from headwater.schemas.change import KeyPath, Op
from headwater.schemas.errors import CommitConflict, CursorGone, InvalidInput

CheckContent = Callable[[SourceContent], None]
"""`InvalidInput` for a content that must not be taken over, e.g. with files outside of the declared roots."""
KeepGoing = Callable[[], None]
"""Called before each commit; raises if the lease is lost or the job is cancelled."""
EndTurn = Callable[[], None]
"""Called where the next turn can continue; raises if others wait. ⚠ Nowhere else: a step that takes longer than a turn, such as
reading a whole state, would begin again in every turn and never be done."""


def without_end() -> None:
    """The turn lasts until everything is done."""


class LogBridge:
    def __init__(
        self,
        kernel: RealmKernel,
        connector: Connector,
        source: LogSource,
        position: SourcePosition,
        tally: Tally,
        *,
        check_content: CheckContent,
        keep_going: KeepGoing,
        end_turn: EndTurn = without_end,
        destination: DestinationBranch | None = None,
    ) -> None:
        self._source = source
        self._position = position
        self._tally = tally
        self._check_content = check_content
        self._keep_going = keep_going
        self._end_turn = end_turn
        self._destination = destination or DestinationBranch(kernel, connector)
        self._at = position.record.position
        """Of the source's log, done; the row lags by the commit that it names as pending."""
        self._again: Pending | None = None

    def run(self, *, full_rescan: bool = False) -> None:
        if not self._settle() or full_rescan:
            self._resync("the state was compared as a whole")
        try:
            for commit in self._source.changes(self._at):
                if not self._take(commit):
                    break  # ⚠ the state is newer than what this iterator continues with
                self._end_turn()
        except CursorGone as gone:
            self._resync(f"the source's log does not reach back: {gone.code}")
        self._done()

    def _settle(self) -> bool:
        """Whether the position is known: what a predecessor had begun has landed, or has not."""
        pending = self._position.record.pending
        if pending is None:
            return True
        try:
            landed = any(
                one.entry.request_id == pending.request_id for one in self._destination.log.forward(pending.branch_seq)
            )
        except CursorGone:  # the branch's own history has expired since: comparing states is right in either case
            return False
        if landed:
            self._at = pending.position
            self._done()
        else:
            self._again = pending
        return True

    def _take(self, commit: SourceCommit) -> bool:
        """Whether the log continues from there."""
        try:
            self._apply(commit)
        except CommitConflict:  # the destination is not what the log led to: it was restored, or written to past all rights
            self._resync("the destination had diverged")
            return False
        return True

    def _apply(self, commit: SourceCommit) -> None:
        wanted: dict[KeyPath, Held] = {}
        gone: list[KeyPath] = []
        for operation in commit.operations:
            key = self._destination.key(operation.key)
            if operation.op is Op.DELETE:
                gone.append(key)
                continue
            if operation.from_key is not None:
                gone.append(self._destination.key(operation.from_key))
            if operation.content is not None:
                wanted |= dict(self._checked([operation.content]))
        self._tally.add(observed=1)
        seen = Seen(version=commit.version, time=commit.time, author=commit.author, message=commit.message)
        self._commit(commit.position, wanted, gone, seen)

    def _checked(self, contents: Iterable[SourceContent]) -> Iterator[tuple[KeyPath, Held]]:
        """What must not be taken over is counted and left out; the rest continues."""
        for content in contents:
            try:
                self._check_content(content)
                yield self._destination.key(content.key), self._destination.wanted(content)
            except InvalidInput as error:
                self._tally.fail(content.key, error.code, str(error))

    def _commit(self, position: str, wanted: dict[KeyPath, Held], gone: Iterable[KeyPath], seen: Seen) -> None:
        head = self._destination.log.head()
        keys = [*wanted, *gone]
        if seen.gap:
            held = self._destination.everything(head)
            gone = [key for key in held if len(key) > len(self._destination.path) and key not in wanted]
        else:
            held = self._destination.at(head, keys)
        plan = plan_bridge(held, wanted, gone)
        if plan.first:
            self._keep_going()
            self._destination.commit(plan.first, seen, uuid.uuid4().hex)
        if plan.then:
            again = self._again
            request_id = again.request_id if again is not None and again.position == position else uuid.uuid4().hex
            pending = Pending(request_id, position, head.seq)
            self._position.move(msgspec.structs.replace(self._position.record, position=self._at, pending=pending))
            self._keep_going()
            self._destination.commit(plan.then, seen, request_id)
            self._tally.add(committed=1, renamed=plan.renamed, dropped=plan.dropped, gaps=1 if seen.gap else 0)
        else:
            self._tally.add(unchanged=1)
        self._again = None
        self._at = position

    def _resync(self, why: str) -> None:
        """⚠ Correct in any situation: one commit makes the destination equal to the source, and says so."""
        state: SourceState = self._source.state()
        wanted = dict(self._checked(ListingBounds(self._keep_going).contents(state.contents)))
        self._commit(state.position, wanted, (), Seen(version=state.version, gap=why, message=f"Resync at {state.version}"))

    def _done(self) -> None:
        if self._position.record.pending is not None or self._position.record.position != self._at:
            self._position.move(msgspec.structs.replace(self._position.record, position=self._at, pending=None))
