"""Decides whether a filter selects a Change. Pure.

A filter shows whole Changes, never parts of one. It never hides what would leave a reader's picture wrong: a deletion, a rename
that leaves the prefix, a pointer that was created, assigned or deleted. Only `kinds` and `operations`, which ask for that by
name, can.
"""

from __future__ import annotations

import msgspec

from headwater.schemas.change import COMMITTING_KINDS, Change, KeyPath, Kind, Op, Operation


class Filter(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a reader asks for; an empty tuple asks for everything."""

    kinds: tuple[Kind, ...] = ()
    operations: tuple[Op, ...] = ()
    types: tuple[str, ...] = ()
    prefix: KeyPath = ()
    """Level by level: ("a",) is a and all below it, and ("acc",) is not ("accounting",)."""
    content_ids: tuple[str, ...] = ()

    @property
    def asks_for_all(self) -> bool:
        return self == NO_FILTER

    def shows(self, change: Change) -> bool:
        if self.kinds and change.kind not in self.kinds:
            return False
        if change.kind not in COMMITTING_KINDS:
            return True
        if not (self.operations or self.types or self.prefix or self.content_ids):
            return True
        return any(self._shows_operation(op) for op in change.operations)

    def _shows_operation(self, op: Operation) -> bool:
        if self.operations and op.op not in self.operations:
            return False
        touches_prefix = is_under(op.key, self.prefix) or (op.from_key is not None and is_under(op.from_key, self.prefix))
        if not touches_prefix or (self.content_ids and op.content_id not in self.content_ids):
            return False
        return not self.types or op.type in self.types or op.op is Op.DELETE


NO_FILTER = Filter()


def is_under(key: KeyPath, prefix: KeyPath) -> bool:
    return key[: len(prefix)] == prefix
