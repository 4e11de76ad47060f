"""Computes what any floor retains from what entries added and released. Does no I/O.

A create, assign or delete opens a *segment* of a pointer's log, with a base (pointer, seq) or none. What a segment adds is
kept as intervals [added, released); what it releases of its base is kept apart. ⚠ With floor F, each segment [b, e) with
e > F and lo = max(b, F) retains its own intervals with released > lo, plus Live(base) minus what it released up to lo.
A segment and its bases make a *chain* of links: an object of a link counts unless a link before it released it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from headwater.schemas.errors import ChainBroken, RetainedIncomplete

NEVER = 2**63 - 1
"""The seq at which a live object was released."""
LINKS_MAX = 100_000


class BaseAt(NamedTuple):
    pointer: str
    seq: int


class SegmentStep(msgspec.Struct, frozen=True, kw_only=True):
    """What this arithmetic needs of one Change."""

    pointer: str
    seq: int
    entry_id: str
    opens: bool
    """Whether it is a create, assign or delete."""
    base: BaseAt | None = None
    added: Sequence[int] = ()
    released: Sequence[int] = ()


class SegmentKey(NamedTuple):
    """A segment is known by its first seq; it ends where the next one of its pointer begins."""

    pointer: str
    start: int


class Bounds(msgspec.Struct, frozen=True, array_like=True):
    """A segment without its objects: one process can hold all of them, however many objects there are."""

    pointer: str
    start: int
    base: BaseAt | None = None


class SegmentLink(NamedTuple):
    """One segment of a chain, as of `at`. The first one includes what comes later, the others only what was there."""

    key: SegmentKey
    at: int
    depth: int


class Segment(msgspec.Struct):
    start: int
    base: BaseAt | None = None
    own: dict[int, tuple[int, int]] = {}
    """Object → the newest interval [added, released) in this segment."""
    earlier: list[tuple[int, int, int]] = []
    """(object, added, released) of objects that were added again afterwards."""
    of_base: dict[int, int] = {}
    """Object of the base → the seq that released it."""

    def add(self, object_id: int, seq: int) -> None:
        before = self.own.get(object_id)
        if before is not None:
            if before[1] == NEVER:
                raise ChainBroken(f"object {object_id} was added at {before[0]} and again at {seq}.")
            self.earlier.append((object_id, *before))
        self.own[object_id] = (seq, NEVER)

    def release(self, object_id: int, seq: int) -> None:
        found = self.own.get(object_id)
        if found is None or found[1] != NEVER:
            self.of_base.setdefault(object_id, seq)
        elif found[0] == seq:  # added and released by one entry: never part of a state
            del self.own[object_id]
        else:
            self.own[object_id] = (found[0], seq)

    def intervals(self) -> Iterator[tuple[int, int, int]]:
        yield from self.earlier
        for object_id, (added, released) in self.own.items():
            yield object_id, added, released

    def seen_at(self, seq: int, *, and_later: bool) -> Iterator[int]:
        for object_id, added, released in self.intervals():
            if released > seq and (and_later or added <= seq):
                yield object_id


class SegmentPosition(NamedTuple):
    """A pointer's log is known without a gap: all states from `first` on, up to the entry `seq`."""

    first: int
    seq: int
    entry_id: str


class SegmentMap:
    """Where segments begin, and the chains that a floor requires. Knows no objects."""

    def __init__(self, bounds: Iterable[Bounds]) -> None:
        self._starts: dict[str, list[Bounds]] = {}
        for bound in sorted(bounds, key=lambda it: (it.pointer, it.start)):
            self._starts.setdefault(bound.pointer, []).append(bound)

    def retained_chains(self, floors: Mapping[str, int], *, follow_base: bool = True) -> Iterator[list[SegmentLink]]:
        """One chain for each segment that reaches above its pointer's floor."""
        for pointer, floor in floors.items():
            starts = self._starts.get(pointer, [])
            for number, bound in enumerate(starts):
                end = starts[number + 1].start if number + 1 < len(starts) else NEVER
                if end > floor:
                    yield self.chain(bound, max(bound.start, floor), follow_base=follow_base)

    def chain(self, bound: Bounds, at: int, *, follow_base: bool = True) -> list[SegmentLink]:
        links = [SegmentLink(SegmentKey(bound.pointer, bound.start), at, 0)]
        while bound.base is not None and follow_base:
            base = bound.base
            bound = self.holding(base)
            links.append(SegmentLink(SegmentKey(bound.pointer, bound.start), base.seq, len(links)))
            if len(links) > LINKS_MAX:
                raise ChainBroken(f"{bound.pointer}: its bases form a cycle.")
        return links

    def holding(self, at: BaseAt) -> Bounds:
        found = [bound for bound in self._starts.get(at.pointer, []) if bound.start <= at.seq]
        if not found:
            raise RetainedIncomplete(
                f"{at.pointer}: entry {at.seq} is the base of another pointer and is not in the set.",
                remedy="Seed the set again by walking.",
                pointer=at.pointer,
                seq=at.seq,
            )
        return found[-1]


class Histories:
    """The segments of all pointers of one realm instance, with their objects: the model in memory."""

    def __init__(self) -> None:
        self.segments: dict[str, list[Segment]] = {}
        self.positions: dict[str, SegmentPosition] = {}

    # ── what enters ─────────────────────────────────────────────────────────────────────────────────────────

    def apply(self, step: SegmentStep) -> bool:
        """False if it was already known. A gap, or another entry in its place, is an error and never skipped."""
        known = self.positions.get(step.pointer)
        if known is not None and step.seq <= known.seq:
            if step.seq == known.seq and step.entry_id != known.entry_id:
                raise ChainBroken(f"{step.pointer}: two different entries have seq {step.seq}.")
            return False
        if step.seq != (1 if known is None else known.seq + 1):
            raise RetainedIncomplete(
                f"{step.pointer}: entry {step.seq} came after {0 if known is None else known.seq}.",
                remedy="Seed the pointer again by walking.",
                pointer=step.pointer,
                seq=step.seq,
            )
        segments = self.segments.setdefault(step.pointer, [])
        if step.opens or not segments:
            segments.append(Segment(start=step.seq, base=step.base))
        for object_id in step.added:
            segments[-1].add(object_id, step.seq)
        for object_id in step.released:
            segments[-1].release(object_id, step.seq)
        self.positions[step.pointer] = SegmentPosition(1 if known is None else known.first, step.seq, step.entry_id)
        return True

    def seed(self, pointer: str, seq: int, entry_id: str, live: Iterable[int]) -> None:
        """Start from a state that was walked; what was known of the pointer is forgotten."""
        self.segments[pointer] = [Segment(start=seq, own=dict.fromkeys(live, (seq, NEVER)))]
        self.positions[pointer] = SegmentPosition(seq, seq, entry_id)

    # ── what leaves ─────────────────────────────────────────────────────────────────────────────────────────

    def bounds(self) -> Iterator[Bounds]:
        for pointer, segments in self.segments.items():
            for segment in segments:
                yield Bounds(pointer, segment.start, segment.base)

    def live(self, pointer: str, seq: int) -> set[int]:
        """What the state after that entry reaches."""
        known = self.positions.get(pointer)
        if known is None or not known.first <= seq <= known.seq:
            raise RetainedIncomplete(f"{pointer}: entry {seq} is not in the set.", pointer=pointer, seq=seq)
        segments = SegmentMap(self.bounds())
        chain = segments.chain(segments.holding(BaseAt(pointer, seq)), seq)
        return set(self._objects(chain, and_later=False))

    def retained(self, floors: Mapping[str, int], *, follow_base: bool = True) -> set[int]:
        """The union of what all states from each floor to each head reach. `follow_base` lets tests show that following is
        needed."""
        found: set[int] = set()
        for chain in SegmentMap(self.bounds()).retained_chains(floors, follow_base=follow_base):
            found.update(self._objects(chain, and_later=True))
        return found

    def _objects(self, chain: Sequence[SegmentLink], *, and_later: bool, of_base_only: bool = False) -> Iterator[int]:
        hidden: set[int] = set()
        for link in chain:
            segment = self._segment(link.key)
            if link.depth or not of_base_only:
                seen = segment.seen_at(link.at, and_later=and_later and link.depth == 0)
                yield from (object_id for object_id in seen if object_id not in hidden)
            hidden.update(object_id for object_id, released in segment.of_base.items() if released <= link.at)

    def _segment(self, key: SegmentKey) -> Segment:
        return next(segment for segment in self.segments[key.pointer] if segment.start == key.start)

    # ── what may be forgotten ───────────────────────────────────────────────────────────────────────────────

    def compact(self, floors: Mapping[str, int]) -> None:
        """⚠ Only for the floors of a sweep that proved completeness up to every head: then no base below them is added any
        more. Segments whose base lies below its pointer's floor take over what they still need of it; then everything that no
        state from the floors on reaches is forgotten. Pointers without a floor are removed, with all they had."""
        chains = {chain[0].key: chain for chain in SegmentMap(self.bounds()).retained_chains(floors)}
        kept: dict[str, list[Segment]] = {pointer: [] for pointer in floors}
        for key, chain in chains.items():
            segment = self._segment(key)
            flatten = segment.base is not None and segment.base.seq < floors.get(segment.base.pointer, NEVER)
            kept[key.pointer].append(self._compacted(segment, chain, flatten=flatten))
        self.segments = {pointer: segments for pointer, segments in kept.items() if segments}
        self.positions = {
            pointer: known._replace(first=max(known.first, floors[pointer]))
            for pointer, known in self.positions.items()
            if pointer in self.segments
        }

    def _compacted(self, segment: Segment, chain: Sequence[SegmentLink], *, flatten: bool) -> Segment:
        lo = chain[0].at
        compacted = Segment(start=segment.start, base=None if flatten else segment.base)
        compacted.earlier = [interval for interval in segment.earlier if interval[2] > lo]
        compacted.own = {object_id: both for object_id, both in segment.own.items() if both[1] > lo}
        if not flatten:
            compacted.of_base = dict(segment.of_base)
            return compacted
        for object_id in set(self._objects(chain, and_later=True, of_base_only=True)):
            interval = (lo, segment.of_base.get(object_id, NEVER))
            if object_id in compacted.own:
                compacted.earlier.append((object_id, *interval))
            else:
                compacted.own[object_id] = interval
        return compacted
