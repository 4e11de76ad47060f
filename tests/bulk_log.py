"""A kernel and a number enter; a log of that many empty commits leaves, linked as the committer links them, written in bulk."""

from __future__ import annotations

from headwater.persistence.log_entry import ENTRY, Entry, Logged, id_of
from headwater.persistence.realm_objects import NewObject
from headwater.persistence.rows import PointerRow
from headwater.persistence.spine import NO_LINK, Link, Spine
from headwater.persistence.store import RealmKernel
from headwater.schemas.change import Kind
from tests.commit_harness import MAIN

ENTRIES_AT_ONCE = 5_000
EMBEDS_EVERY = 24


def append_in_bulk(kernel: RealmKernel, count: int, pointer: str = MAIN) -> Logged:
    """The newest entry of a new pointer; entry n was made n milliseconds after the first."""
    backend, time = kernel.store.backend, kernel.store.clock.now_micros()
    jumps: dict[int, Link] = {}
    spine, head, previous = Spine(), NO_LINK, b""
    back: tuple[int, ...] = ()
    pending: list[NewObject[Entry]] = []
    for seq, object_id in enumerate(kernel.store.take(count), start=1):
        jump, spine = spine.next(head, lambda link: jumps[link.object_id])
        embeds = seq % EMBEDS_EVERY == 0
        entry = Entry(
            pointer=pointer, seq=seq, kind=Kind.COMMIT, previous=previous, commit=b"", parent=b"", head_before=b"",
            time=time + 1_000 * seq, author="bulk", message="", headers={}, request_id=f"bulk-{seq}", operations=(),
            index_added=(), index_released=(), levels=(), embeds=embeds, back=back, tail_length=max(len(back) - 1, 0),
            jump_id=jump.object_id, jump_seq=jump.seq,
        )  # fmt: skip
        previous, head = id_of(entry, object_id), Link(seq, object_id)
        spine, jumps[object_id] = spine.starting_at(head), jump
        back = (object_id,) if embeds else (*back, object_id)
        pending.append(NewObject(ENTRY, object_id, entry))
        if len(pending) == ENTRIES_AT_ONCE or seq == count:
            backend.write_objects(kernel.realm, kernel.objects.strong_rows(pending, time))
            pending.clear()
    backend.add_name(kernel.realm, pointer)
    assert backend.reserve_pointer(
        kernel.realm, pointer, PointerRow(head=previous, seq=count, created_at=kernel.store.clock.now_micros())
    )
    return Logged(previous, entry)
