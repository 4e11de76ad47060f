"""What a reader has returned from one partition, and the text that is kept with its offset. Does no I/O."""

from __future__ import annotations

import msgspec

from headwater.consumers.kafka.kafka_chains import KafkaChains
from headwater.consumers.kafka.kafka_positions import KafkaPosition, KeptPositions
from headwater.schemas.change import Change
from headwater.schemas.kafka_records import FeedRecord, RecordType


class KafkaPartition:
    """Where to continue, the positions of the pointers (newest last), and how far its generations have come."""

    def __init__(self, chains: KafkaChains, kept: KeptPositions, *, is_shared: bool, begins_midway: bool) -> None:
        """`is_shared`: other partitions may be with other readers of a group. `begins_midway`: earlier records were left out by
        the reader's own choice, or are known to have been returned."""
        self.chains = chains
        self.offset: int | None = None
        self._positions = dict(kept.positions)
        self._is_complete = kept.is_complete
        self._generation, self._has_ended = kept.generation, kept.has_ended
        self._is_shared = is_shared
        self._begins_midway = begins_midway
        self._accepted: set[str] = set()
        self._sought = 0
        """The generation for which the partition was read from its beginning."""

    @property
    def is_complete(self) -> bool:
        """Whether the positions of all its pointers were kept."""
        return self._is_complete

    def may_begin(self, record: FeedRecord) -> bool:
        """Whether a pointer that was never seen may begin with this record, though others come before it."""
        moved_here = self._is_shared and record.type == RecordType.BASELINE  # the rest lies in the partition that it left
        return self._begins_midway or moved_here

    def begins_unseen(self, record: FeedRecord) -> bool:
        """⚠ Whether a pointer begins here that this partition never had. Until then it was in another one, and the group may
        have acknowledged entries there that are gone."""
        is_first = record.type == RecordType.BASELINE and self.chains.reached(record.pointer) is None
        return is_first and not self.is_accepted(record.pointer)

    def position(self, pointer: str) -> KafkaPosition | None:
        position = self._positions.get(pointer)
        return position and msgspec.structs.replace(position, generation=self.chains.generation(pointer))

    def continue_from(self, pointer: str, position: KafkaPosition) -> None:
        """The position of another partition of the group."""
        self.chains.begin({pointer: position})
        self._positions[pointer] = position

    def accept(self, pointer: str, generation: int) -> None:
        """What was returned of the pointer is void: it starts over, in that generation."""
        self.chains.begin_anew(pointer, generation)
        self._positions.pop(pointer, None)
        self._accepted.add(pointer)

    def is_accepted(self, pointer: str) -> bool:
        return pointer in self._accepted

    def is_jump(self, record: FeedRecord) -> bool:
        """⚠ Whether the record's generation began unread: the topic was re-created, and is read from the middle. False once
        everything before it in the partition was read: otherwise a partition that lacks the end of a generation would be read
        forever."""
        if self._generation == 0 or record.generation <= max(self._generation, self._sought):
            return False
        return not (self._has_ended and record.generation == self._generation + 1)

    def begin_again(self, wanted: int = 0) -> None:
        """From the partition's first record, whatever its generation; `wanted` is the generation for which it is read."""
        self._generation, self._has_ended = 0, False
        self._sought = max(self._sought, wanted)

    def note(self, offset: int, record: FeedRecord) -> None:
        """All of that record was returned."""
        self.offset = offset + 1
        self._generation, self._has_ended = record.generation, record.type == RecordType.END
        if record.type in (RecordType.PURGED, RecordType.MOVED):
            self._positions.pop(record.pointer, None)
        if record.type in (RecordType.BASELINE, RecordType.TRUNCATED) and self.chains.has_begun_with(record):
            self.note_position(record.pointer, record.seq, record.entry_id)

    def note_change(self, change: Change) -> None:
        self.note_position(change.pointer, change.seq, change.entry_id)

    def note_position(self, pointer: str, seq: int, entry_id: str) -> None:
        self._positions.pop(pointer, None)
        self._positions[pointer] = KafkaPosition(seq, bytes.fromhex(entry_id), self.chains.generation(pointer))

    def kept(self) -> KeptPositions:
        """All that the next owner of the partition must know."""
        positions = {
            pointer: msgspec.structs.replace(position, generation=self.chains.generation(pointer))
            for pointer, position in self._positions.items()
        }
        return KeptPositions(self._generation, self._has_ended, self._is_complete, positions)
