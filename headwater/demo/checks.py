"""Compares acknowledgements, what the follower saw and the log; one verdict per promise. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from headwater.demo.journal import JournalEvent, JournalLine, acknowledged
from headwater.demo.writer_processes import Killed
from headwater.schemas.change import Change, KeyPath, Value

Logs = Mapping[str, Sequence[Change]]
"""The whole log of each pointer, read again from the first entry, hash by hash."""


class Check(msgspec.Struct, frozen=True):
    promise: str
    kept: bool
    detail: str


def nothing_lost(diaries: Mapping[str, list[JournalLine]], logs: Logs) -> Check:
    """Each acknowledged commit is at the position that its writer was given."""
    answered = [line for lines in diaries.values() for line in acknowledged(lines)]
    lost = [line.request_id for line in answered if _at(logs, line.pointer, line.seq) != line.request_id]
    return Check("nothing acknowledged is lost", bool(answered) and not lost, _of(len(answered), "acknowledged", lost))


def nothing_doubled(logs: Logs) -> Check:
    changes = [change for log in logs.values() for change in log]
    twice = [id for id, times in Counter((change.pointer, change.request_id) for change in changes).items() if times > 1]
    return Check("nothing is there twice", not twice, _of(len(changes), "changes", twice))


def nothing_invented(diaries: Mapping[str, list[JournalLine]], logs: Logs, set_up: set[str]) -> Check:
    """Every commit in the log was attempted by a writer."""
    tried = {line.request_id for lines in diaries.values() for line in lines if line.event is JournalEvent.TRIED} | set_up
    strange = [change.request_id for log in logs.values() for change in log if change.request_id not in tried]
    return Check("nothing is there that was not requested", not strange, _of(len(tried), "requests", strange))


def dense_and_chained(logs: Logs) -> Check:
    """The chain recomputed every hash while the logs were read; here the numbers are counted once more."""
    holes = [pointer for pointer, log in logs.items() if [change.seq for change in log] != [*range(1, len(log) + 1)]]
    entries = sum(len(log) for log in logs.values())
    return Check("no gap, and every hash follows from the one before", not holes, _of(entries, "hashes checked", holes))


def follower_saw_all(seen: Mapping[str, list[str]], logs: Logs) -> Check:
    wrong = [pointer for pointer, log in logs.items() if seen.get(pointer) != [change.entry_id for change in log]]
    detail = _of(sum(map(len, seen.values())), "changes followed", wrong)
    return Check("the follower saw each change once, in order", not wrong, detail)


def all_or_nothing(killed: Killed, found: Sequence[Change]) -> Check:
    """`found` is what the log held of the commit in flight, right after the kill."""
    promise = "the killed writer's last commit is wholly in or wholly out"
    if killed.in_flight is None:
        return Check(promise, True, "nothing was in flight")
    wanted = killed.in_flight.operations
    if not found:
        return Check(promise, True, f"{killed.in_flight.request_id}: none of its {wanted} operations are in")
    whole = len(found) == 1 and len(found[0].operations) == wanted
    held = sum(len(change.operations) for change in found)
    return Check(promise, whole, f"{killed.in_flight.request_id}: {held} of its {wanted} operations are in")


def kill_was_real(killed: Killed) -> Check:
    by_signal = killed.exit_code == -9
    detail = f"process {killed.pid} ended by signal 9 after {killed.acknowledged} acknowledged changes"
    return Check("one writer was killed -9 in the middle", by_signal and killed.acknowledged > 0, detail)


def state_is_the_sum(log: Sequence[Change], state: Mapping[KeyPath, Value]) -> Check:
    """A reader that applies the Changes ends with the catalog's state."""
    folded = fold(log)
    differing = [".".join(key) for key in folded.keys() | state.keys() if folded.get(key) != state.get(key)]
    return Check("the changes add up to the catalog", not differing, _of(len(state), "keys compared", differing))


def others_finished(failures: Sequence[str]) -> Check:
    return Check("all other writers finished", not failures, failures[0] if failures else "none failed")


def fold(log: Iterable[Change]) -> dict[KeyPath, Value]:
    state: dict[KeyPath, Value] = {}
    for change in log:
        for op in change.operations:
            state.pop(op.from_key or op.key, None)
            if op.after is not None:
                state[op.key] = op.after
    return state


def _at(logs: Logs, pointer: str, seq: int) -> str | None:
    log = logs.get(pointer, ())
    return log[seq - 1].request_id if 0 < seq <= len(log) else None


def _of(count: int, what: str, wrong: Sequence[object]) -> str:
    return f"{count} {what}" if not wrong else f"{len(wrong)} of {count} {what} are wrong, the first is {wrong[0]}"
