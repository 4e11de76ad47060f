"""Checks records of the commits topic: each Change passes once and in order, or the reason why not is raised. Does no I/O.

Transactions leave holes in Kafka's offsets, so gaps are found by our own numbers. Entries are identified by their ids: a
generation that starts over is dropped up to the entry that was seen last. Its log must reach that entry and contain that very
one: otherwise the history was replaced, which is a `CursorReset`.
"""

from __future__ import annotations

from collections.abc import Mapping

from headwater.consumers.clients.chain import Chain, Gap
from headwater.consumers.kafka.kafka_positions import KafkaPosition
from headwater.schemas.change import Change
from headwater.schemas.errors import CursorExpired, CursorReset
from headwater.schemas.frame import Frame
from headwater.schemas.kafka_records import FeedRecord, RecordType

REBUILD = "Drop what was made of this pointer, accept() the error and read on: the pointer starts over."


class _PointerChain:
    """What was seen of one pointer."""

    def __init__(self, chain: Chain, generation: int) -> None:
        self.chain = chain
        self.generation = generation


class KafkaChains:
    """What a consumer has seen of its pointers."""

    def __init__(self, begins: int = 1) -> None:
        """`begins`: the newest generation that started over. Records of earlier ones belong to a history that has ended."""
        self._begins = begins
        self._pointers: dict[str, _PointerChain] = {}
        self._since: dict[str, int] = {}
        """Pointer → the generation in which it starts over."""

    def begin(self, positions: Mapping[str, KafkaPosition]) -> None:
        for pointer, position in positions.items():
            chain = Chain(pointer, position.seq, position.entry_id.hex())
            self._pointers[pointer] = _PointerChain(chain, position.generation)

    def reached(self, pointer: str) -> int | None:
        """The last entry that was seen; None if none was."""
        known = self._pointers.get(pointer)
        return None if known is None else known.chain.seq

    def generation(self, pointer: str) -> int:
        known = self._pointers.get(pointer)
        return 0 if known is None else known.generation

    def has_begun_with(self, record: FeedRecord) -> bool:
        """Whether the last entry seen of a pointer is where this baseline begins. ⚠ That is a position just like the one after
        a Change: otherwise a reader that takes the pointer over would miss what lies before it."""
        known = self._pointers.get(record.pointer)
        at = None if known is None else (known.generation, known.chain.seq, known.chain.id_of(known.chain.seq))
        return record.seq > 0 and bool(record.entry_id) and at == (record.generation, record.seq, record.entry_id)

    def is_over(self, record: FeedRecord) -> bool:
        """Whether a record belongs to a history that a later generation has replaced."""
        known = self._pointers.get(record.pointer)
        newest = 0 if known is None else known.generation
        return record.generation < max(self._begins, self._since.get(record.pointer, 0), newest)

    def missing(self, record: FeedRecord, *, may_begin: bool = False) -> Gap | None:
        """What must be read from the log before the record can be taken. ⚠ A pointer's first record that is neither its first
        entry nor a baseline is a gap too, unless the reader `may_begin` there by its own choice."""
        if self.is_over(record) or not _follows_others(record):
            return None
        reached, before = self.reached(record.pointer), record.seq - (record.type == RecordType.CHANGE)
        if reached is None and may_begin:
            return None
        return Gap(record.pointer, reached or 0, before) if before > (reached or 0) else None

    def take(self, record: FeedRecord, change: Change | None) -> list[Change]:
        """`change` is the record's, fetched if it was too large for Kafka."""
        if self.is_over(record):
            return []
        match record.type:
            case RecordType.CHANGE if change is not None:
                return self._change(record, change)
            case RecordType.BASELINE:
                self._baseline(record)
            case RecordType.TRUNCATED:
                self._require_seen(record, "were cut before they were published")
                self._pointers.setdefault(record.pointer, _begun(record))
            case RecordType.PURGED:
                self._require_seen(record, "were purged before they were published")
                self.forget(record.pointer)
            case RecordType.MOVED:
                self.forget(record.pointer)
        return []

    def pass_by(self, record: FeedRecord) -> None:
        """Skips a Change before the place where the reader wants to begin."""
        if not self.is_over(record) and record.seq > (self.reached(record.pointer) or 0):
            self._pointers[record.pointer] = _begun(record)

    def take_frame(self, frame: Frame) -> list[Change]:
        """From the log, to fill a gap."""
        if frame.pointer not in self._pointers:
            self._pointers[frame.pointer] = _PointerChain(Chain(frame.pointer, frame.from_seq), self._begins)
        return self._pointers[frame.pointer].chain.accept(frame)

    def forget(self, pointer: str) -> None:
        self._pointers.pop(pointer, None)

    def begin_anew(self, pointer: str, generation: int) -> None:
        """What was seen of it is void, and so is what earlier generations hold."""
        self.forget(pointer)
        self._since[pointer] = generation

    def require(self, pointer: str, seq: int, entry_id: str) -> None:
        """`CursorReset` if another entry was seen there."""
        known = self._pointers.get(pointer)
        if known is not None and (seen := known.chain.id_of(seq)) and entry_id and seen != entry_id:
            raise _reset(pointer, f"entry {seq} was seen as {seen} and is {entry_id}", seq)

    # ── steps ───────────────────────────────────────────────────────────────────────────────────────────────

    def _change(self, record: FeedRecord, change: Change) -> list[Change]:
        known = self._pointers.get(record.pointer)
        if known is None:
            known = self._pointers[record.pointer] = _PointerChain(Chain(record.pointer, record.seq - 1), record.generation)
        if record.generation > known.generation and record.seq <= known.chain.seq:
            self._require_proven(record, known)
        known.generation = record.generation
        frame = Frame(pointer=record.pointer, from_seq=record.seq - 1, to_seq=record.seq, changes=(change,))
        return known.chain.accept(frame)

    def _require_proven(self, record: FeedRecord, known: _PointerChain) -> None:
        """An entry of another generation whose baseline the topic has lost: it may belong to another history."""
        if known.chain.id_of(record.seq) != record.id:
            raise _reset(
                record.pointer,
                f"entry {record.seq} came again in generation {record.generation}, whose baseline the topic has lost; "
                f"up to entry {known.chain.seq} was seen",
                record.seq,
            )

    def _baseline(self, record: FeedRecord) -> None:
        known = self._pointers.get(record.pointer)
        if known is None:
            self._pointers[record.pointer] = _begun(record)
            return
        self.require(record.pointer, record.seq, record.entry_id)
        if not record.continues and record.generation > known.generation:
            self._begin_anew(record, known)
        known.generation = record.generation

    def _begin_anew(self, record: FeedRecord, known: _PointerChain) -> None:
        """⚠ The log must reach what was seen: otherwise its new entries would wait behind that forever, unseen."""
        seen = known.chain.seq
        if record.head_seq < seen:
            raise _reset(record.pointer, f"up to entry {seen} was seen, but its log ends at {record.head_seq}", seen)
        self.require(record.pointer, record.head_seq, record.head_id)
        self._require_seen(record, "were cut before they were published again")

    def _require_seen(self, record: FeedRecord, what: str) -> None:
        """⚠ What is neither in the topic nor in the log any more is lost to readers that had not seen it: never skipped."""
        known = self._pointers.get(record.pointer)
        if known is not None and known.chain.seq < record.seq:
            raise CursorExpired(
                f"{record.pointer}: entries {known.chain.seq + 1} to {record.seq} {what}.",
                remedy="Take a snapshot and follow from its entry.",
                pointer=record.pointer,
                oldest=record.seq + 1,
            )


def _follows_others(record: FeedRecord) -> bool:
    """Whether entries come before it that a reader must have seen."""
    return record.type == RecordType.CHANGE or (record.type == RecordType.BASELINE and record.continues > 0)


def _begun(record: FeedRecord) -> _PointerChain:
    return _PointerChain(Chain(record.pointer, record.seq, record.entry_id), record.generation)


def _reset(pointer: str, why: str, seq: int) -> CursorReset:
    return CursorReset(f"{pointer}: {why}: the history was replaced.", remedy=REBUILD, pointer=pointer, seq=seq)
