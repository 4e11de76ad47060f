"""Decides what the target holds at one key, from base, source, target and the rule for that key. Pure.

A value is compared by content, never by object: copies of one content are one content.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec
from msgspec import UNSET, UnsetType

from headwater.persistence.log.log_entry import Content


class Behavior(StrEnum):
    NORMAL = "NORMAL"
    """Take the source's change unless the target has changed the key too."""
    FORCE = "FORCE"
    """Take what the source holds, whatever the target did."""
    DROP = "DROP"
    """Leave the target as it is."""


class KeyRule(msgspec.Struct, frozen=True, kw_only=True):
    """How one key is merged. `None` as content means that the key is absent."""

    behavior: Behavior = Behavior.NORMAL
    expected: Content | UnsetType | None = UNSET
    """What the target must hold for this rule to be right."""
    resolved: Content | UnsetType | None = UNSET
    """What the target shall hold, in place of the source's content."""


class MergeDecision(StrEnum):
    KEEP = "keep"
    """The target already is as it shall be."""
    TAKE = "take"
    CONFLICT = "conflict"
    """Both sides changed the key, to different contents."""
    UNEXPECTED = "unexpected"
    """The target does not hold what the rule expected."""
    OTHER_CONTENT = "other_content"
    """The rule resolves the key to a content that neither side has there, by id or type."""


class MergedKey(msgspec.Struct, frozen=True):
    verdict: MergeDecision
    content: Content | None = None
    """What to put, with TAKE; None deletes."""


def merge_key(base: Content | None, source: Content | None, target: Content | None, rule: KeyRule) -> MergedKey:
    if rule.expected is not UNSET and rule.expected != target:
        return MergedKey(MergeDecision.UNEXPECTED)
    if rule.behavior is Behavior.DROP:
        return MergedKey(MergeDecision.KEEP)
    if rule.resolved is not UNSET:
        wanted = rule.resolved
        if wanted is not None and not any(_is_same_thing(wanted, side) for side in (source, target)):
            return MergedKey(MergeDecision.OTHER_CONTENT)
    elif rule.behavior is Behavior.NORMAL and target not in (base, source):
        return MergedKey(MergeDecision.CONFLICT)
    else:
        wanted = source
    return MergedKey(MergeDecision.KEEP) if wanted == target else MergedKey(MergeDecision.TAKE, wanted)


def _is_same_thing(one: Content, other: Content | None) -> bool:
    return other is not None and (one.content_id, one.type) == (other.content_id, other.type)
