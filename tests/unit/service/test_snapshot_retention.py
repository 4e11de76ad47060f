"""Which snapshots a table's retention keeps, by Iceberg's rules."""

from __future__ import annotations

from typing import Any

import pytest

from headwater.service.iceberg.metadata.snapshot_retention import Expired, SnapshotRule, expired

NOW = 1_000_000
RULE = SnapshotRule(age_ms=100)


def table(ages: list[int], refs: dict[str, dict[str, Any]] | None = None, **properties: str) -> dict[str, Any]:
    """One line of snapshots 1, 2, …, each so many milliseconds old; `main` is at the last one."""
    snapshots = [
        {"snapshot-id": number, "timestamp-ms": NOW - age, **({"parent-snapshot-id": number - 1} if number > 1 else {})}
        for number, age in enumerate(ages, 1)
    ]
    main = {"main": {"snapshot-id": len(ages), "type": "branch"}} if ages else {}
    named = {f"history.expire.{name.replace('_', '-')}": value for name, value in properties.items()}
    return {"snapshots": snapshots, "refs": {**main, **(refs or {})}, "properties": named}


def test_old_snapshots_expire_except_the_newest() -> None:
    assert expired(table([500, 400, 300]), RULE, NOW) == Expired((1, 2))
    assert expired(table([500, 99, 50]), RULE, NOW) == Expired((1,))


def test_a_minimum_number_of_snapshots_is_kept_at_any_age() -> None:
    assert expired(table([500, 400, 300, 200]), SnapshotRule(100, 3), NOW) == Expired((1,))
    assert expired(table([500, 400, 300]), SnapshotRule(100, 0), NOW) == Expired((1, 2))


def test_tags_keep_their_snapshot_and_nothing_before_it() -> None:
    assert expired(table([500, 400, 300], {"v1": {"snapshot-id": 2, "type": "tag"}}), RULE, NOW) == Expired((1,))


def test_the_settings_of_a_branch_count_before_the_tables_and_those_before_the_rule() -> None:
    history = [500, 400, 300, 200]
    assert expired(table(history, max_snapshot_age_ms="350"), RULE, NOW) == Expired((1, 2))
    assert expired(table(history, min_snapshots_to_keep="3"), RULE, NOW) == Expired((1,))
    main = {"main": {"snapshot-id": 4, "type": "branch", "max-snapshot-age-ms": 450}}
    assert expired(table(history, main, max_snapshot_age_ms="1"), RULE, NOW) == Expired((1,))


def test_a_rule_that_overrides_counts_before_all_settings() -> None:
    history = table([500, 400, 300], max_snapshot_age_ms="9999", min_snapshots_to_keep="3")
    assert expired(history, SnapshotRule(100, 1, overrides=True), NOW) == Expired((1, 2))


def test_branches_and_tags_over_their_age_go_but_never_main() -> None:
    refs = {
        "main": {"snapshot-id": 3, "type": "branch", "max-ref-age-ms": 1},
        "old": {"snapshot-id": 1, "type": "tag", "max-ref-age-ms": 100},
        "young": {"snapshot-id": 2, "type": "branch", "max-ref-age-ms": 1_000},
    }
    assert expired(table([500, 400, 300], refs), RULE, NOW) == Expired((1,), ("old",))


def test_unreferenced_snapshots_are_kept_by_age() -> None:
    lost = table([500, 50, 40])
    lost["refs"]["main"]["snapshot-id"] = 1
    assert expired(lost, RULE, NOW) == Expired()
    assert expired(lost, SnapshotRule(45), NOW) == Expired((2,))


@pytest.mark.parametrize("text", ["", "soon", "-5", "1e3"])
def test_a_setting_that_is_not_a_number_keeps_everything(text: str) -> None:
    assert expired(table([500, 400, 300], max_snapshot_age_ms=text), RULE, NOW) == Expired()


def test_a_table_without_snapshots_has_nothing_to_expire() -> None:
    assert expired(table([]), RULE, NOW) == Expired()


def test_a_circle_of_parents_ends() -> None:
    circle = table([500, 400])
    circle["snapshots"][0]["parent-snapshot-id"] = 2
    assert expired(circle, RULE, NOW) == Expired((1,))
