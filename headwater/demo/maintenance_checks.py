"""Compares the counts of maintenance with the store before and after; one verdict per promise. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from headwater.demo.checks import Check

States = Mapping[tuple[str, int], object]
"""For every entry that policy keeps: the state of the catalog at that time."""
RowsByType = Mapping[str, int]


def kept_states_are_whole(before: States, after: States) -> Check:
    altered = [f"{pointer} at {seq}" for (pointer, seq), state in before.items() if after.get((pointer, seq)) != state]
    detail = f"{len(before)} states compared" if not altered else f"{len(altered)} differ, the first is {altered[0]}"
    return Check("every state that is kept is what it was", bool(before) and not altered and len(after) == len(before), detail)


def garbage_is_gone(unreached: int, missing: int, abandoned: Collection[int], there: Collection[int]) -> Check:
    """`there` are the ids of all objects that are left."""
    left = [object_id for object_id in abandoned if object_id in there]
    kept = bool(abandoned) and not left and not unreached and not missing
    detail = f"{len(abandoned)} abandoned objects gone, nothing unreachable left, nothing missing"
    return Check("what nothing reaches is gone", kept, detail if kept else f"{unreached} left, {missing} missing, {left[:3]}")


def counters_are_true(purged: int, before: RowsByType, after: RowsByType) -> Check:
    gone = sum(before.values()) - sum(after.values())
    return Check("the counters say what happened", purged == gone > 0, f"{purged} counted, {gone} rows fewer")


def stream_is_the_walk(walked: int, streamed: int, is_same: bool) -> Check:
    detail = f"{streamed} objects by stream, {walked} by walking"
    return Check("the streamed set is the walked one, object by object", is_same and walked > 0, detail)
