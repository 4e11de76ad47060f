"""The rules for one key of a merge, over every combination of what the three sides can hold."""

from __future__ import annotations

from itertools import product

import pytest
from msgspec import UNSET

from headwater.persistence.log.log_entry import Content
from headwater.producer.merging.three_way import Behavior, KeyRule, MergeDecision, MergedKey, merge_key

A, B, C = (Content(bytes(16), "ICEBERG_TABLE", {"v": n}) for n in range(3))
SIDES = (None, A, B, C)
EVERY_CASE = list(product(SIDES, repeat=3))
NORMAL, FORCE, DROP = (KeyRule(behavior=behavior) for behavior in Behavior)


@pytest.mark.parametrize(("base", "source", "target"), EVERY_CASE)
def test_normal_takes_the_sources_change_unless_both_changed_differently(
    base: Content | None, source: Content | None, target: Content | None
) -> None:
    merged = merge_key(base, source, target, NORMAL)
    if source == target:
        assert merged == MergedKey(MergeDecision.KEEP)
    elif target == base:
        assert merged == MergedKey(MergeDecision.TAKE, source)
    else:
        assert merged.verdict is MergeDecision.CONFLICT


@pytest.mark.parametrize(("base", "source", "target"), EVERY_CASE)
def test_force_ends_with_the_sources_content(base: Content | None, source: Content | None, target: Content | None) -> None:
    merged = merge_key(base, source, target, FORCE)
    assert (merged.content if merged.verdict is MergeDecision.TAKE else target) == source


@pytest.mark.parametrize(("base", "source", "target"), EVERY_CASE)
def test_drop_leaves_the_target_alone(base: Content | None, source: Content | None, target: Content | None) -> None:
    assert merge_key(base, source, target, DROP) == MergedKey(MergeDecision.KEEP)


@pytest.mark.parametrize(("base", "source", "target"), EVERY_CASE)
@pytest.mark.parametrize("expected", SIDES)
def test_an_expectation_that_does_not_hold_is_a_conflict_under_any_behavior(
    base: Content | None, source: Content | None, target: Content | None, expected: Content | None
) -> None:
    for behavior in Behavior:
        verdict = merge_key(base, source, target, KeyRule(behavior=behavior, expected=expected)).verdict
        assert (verdict is MergeDecision.UNEXPECTED) == (expected != target)


@pytest.mark.parametrize("resolved", SIDES)
def test_a_resolved_content_replaces_the_clash(resolved: Content | None) -> None:
    merged = merge_key(A, B, C, KeyRule(resolved=resolved))
    assert (merged.content if merged.verdict is MergeDecision.TAKE else C) == resolved


def test_no_expectation_is_not_the_expectation_of_absence() -> None:
    assert KeyRule().expected is UNSET
    assert merge_key(A, B, A, KeyRule()).verdict is MergeDecision.TAKE
    assert merge_key(A, B, A, KeyRule(expected=None)).verdict is MergeDecision.UNEXPECTED
