"""Changes with any single bit flipped are never taken for the entry that was committed."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest

from headwater.persistence.log.log_entry import StoredSource, change_of
from headwater.persistence.reading.state import base_state
from headwater.persistence.store import RealmKernel
from headwater.schemas.change import Change, Kind
from headwater.schemas.entry_ids import recomputed_entry_id
from headwater.schemas.errors import ChainBroken, ObjectNotFound
from tests.support.models.commit_harness import MAIN, REALM, Lanes, MoveTo, Write, checked_log, new_store


@pytest.fixture
def kernel() -> Iterator[RealmKernel]:
    with new_store("memory://") as store:
        yield store.kernel(REALM)


class Merge(Write, frozen=True, kw_only=True):
    """With everything that a Change can carry."""

    def plan(self, draft):  # type: ignore[no-untyped-def]
        planned = super().plan(draft)
        assert planned is not None
        source = StoredSource("side", draft.head.commit)
        return msgspec.structs.replace(planned, kind=Kind.MERGE, headers={"trace": "1a", "b": ""}, source=source)


def every_flip(change: Change) -> Iterator[Change]:
    """The Change as read from its JSON with one bit flipped, where that is still a Change and says something else."""
    raw = bytearray(msgspec.json.encode(change))
    for position in range(len(raw)):
        for bit in range(8):
            raw[position] ^= 1 << bit
            try:
                flipped = msgspec.json.decode(raw, type=Change)
            except (msgspec.DecodeError, UnicodeDecodeError):
                flipped = change
            raw[position] ^= 1 << bit
            if flipped != change and flipped.realm == change.realm:  # a realm may be imported under another name
                yield flipped


def is_noticed(change: Change, previous: str) -> bool:
    try:
        return recomputed_entry_id(change, previous) != change.entry_id
    except ChainBroken:
        return True


def test_a_flipped_bit_anywhere_in_a_change_is_detected(kernel: RealmKernel) -> None:
    lanes = Lanes(kernel)
    lanes.landed(MAIN, Write(puts={"a": {"v": 1}, "b": {"v": "x"}}))
    merged = lanes.landed(MAIN, Merge(puts={"a": {"v": 1.5, "none": None}}, deletes=("b",), message="ü"))
    lanes.landed(MAIN, MoveTo(kind=Kind.ASSIGN, base=base_state(merged)))
    flips, previous = 0, ""
    for logged in checked_log(kernel):
        change = change_of(logged, REALM)
        for flipped in every_flip(change):
            assert is_noticed(flipped, previous), f"{flipped} passes for {change}"
            flips += 1
        previous = change.entry_id
    assert flips > 5_000


def test_an_entry_after_another_predecessor_is_detected(kernel: RealmKernel) -> None:
    lanes = Lanes(kernel)
    for n in range(3):
        lanes.landed(MAIN, Write(puts={"a": {"v": n}}))
    one, two, three = (change_of(logged, REALM) for logged in checked_log(kernel))
    assert is_noticed(three, one.entry_id) and is_noticed(two, "") and not is_noticed(three, two.entry_id)


def test_an_id_that_only_begins_like_an_entrys_names_nothing(kernel: RealmKernel) -> None:
    logged = Lanes(kernel).landed(MAIN, Write(puts={"a": {"v": 1}}))
    assert kernel.walk.load(logged.entry_id) == logged
    with pytest.raises(ObjectNotFound):
        kernel.walk.load(logged.entry_id[:-1] + bytes([logged.entry_id[-1] ^ 1]))
