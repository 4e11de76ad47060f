"""Valid logs of given lengths: Changes chained as the engine chains them."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from headwater.schemas.change import COMMITTING_KINDS, Base, Change, Kind, Op, Operation
from headwater.schemas.entry_ids import EMPTY, recomputed_entry_id, time_text

POINTER = "cat/1/heads/main"


def put(*key: str, value: int, before: int | None = None) -> Operation:
    return Operation(
        op=Op.PUT,
        key=key,
        content_id="00000000-0000-0000-0000-000000000000",
        type="ICEBERG_TABLE",
        before=None if before is None else {"v": before},
        after={"v": value},
    )


class History:
    """One pointer's log, extended entry by entry."""

    def __init__(self, pointer: str = POINTER) -> None:
        self.pointer = pointer
        self.changes: list[Change] = []

    def add(self, *operations: Operation, kind: Kind = Kind.COMMIT, base: Base | None = None, at_micros: int = 0) -> Change:
        previous = self.changes[-1] if self.changes else None
        seq = len(self.changes) + 1
        unhashed = f"{seq:016x}" + "0" * 48
        head = previous.commit_id if previous else EMPTY.hex()
        is_commit = kind in COMMITTING_KINDS
        commit_id = unhashed if is_commit else base.commit_id if base else EMPTY.hex()
        draft = Change(
            realm="r", pointer=self.pointer, seq=seq, entry_id=unhashed, kind=kind, commit_id=commit_id, parent_id=head,
            head_before=head, time=time_text(at_micros or seq * 1_000_000), author="a", message="", headers={},
            request_id=str(seq), operations=operations, objects_added=(), objects_released=(), base=base,
        )  # fmt: skip
        entry_id = recomputed_entry_id(draft, previous.entry_id if previous else "")
        change = msgspec.structs.replace(draft, entry_id=entry_id, commit_id=entry_id if is_commit else commit_id)
        self.changes.append(change)
        return change


def history(length: int, pointer: str = POINTER) -> list[Change]:
    made = History(pointer)
    for seq in range(1, length + 1):
        made.add(put("t", value=seq))
    return made.changes


def seqs(changes: Sequence[Change]) -> list[int]:
    return [change.seq for change in changes]
