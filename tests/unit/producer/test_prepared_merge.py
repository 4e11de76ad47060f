"""A merge that was prepared for one head and is applied to a later one."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from headwater.producer.merging import merge as merging
from headwater.producer.merging.merge import MergeRequest
from tests.support.faults.manual_clock import ManualClock
from tests.support.fixtures.catalog_lake import META, Lake, open_lake


@pytest.fixture
def lake() -> Iterator[Lake]:
    """`dev` and `other` have each changed a key of their own since `main` was parted from."""
    with open_lake(f"memory://{secrets.token_hex(6)}", clock=ManualClock()) as lake:
        lake.put("t")
        for name in ("dev", "other"):
            lake.refs.create(name, meta=META)
            lake.put(name, on=name)
        yield lake


def prepared(lake: Lake, source: str, target: str = "main") -> MergeRequest:
    resolved = lake.refs.resolve(source)
    request = MergeRequest(lake.kernel, resolved.logged, resolved.pointer, META)
    request.prepare(lake.pointer(target))
    return request


def merge(lake: Lake, source: str, target: str = "main") -> None:
    assert lake.kernel.committer.commit(lake.pointer(target), prepared(lake, source, target)).logged is not None


def plain_commits(lake: Lake) -> None:
    for n in range(60):
        lake.put(f"beside-{n}")


def a_merge_of_something_else(lake: Lake) -> None:
    merge(lake, "other")
    lake.put("behind")


@pytest.mark.parametrize("meanwhile", [lambda lake: None, plain_commits, a_merge_of_something_else])
def test_what_was_prepared_is_used_while_the_target_gains_nothing_that_the_merge_brings(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[Lake], None]
) -> None:
    request = prepared(lake, "dev")
    meanwhile(lake)

    def searched(*_: object) -> None:
        raise AssertionError("the lane searched again")

    monkeypatch.setattr(merging, "shared_history", searched)
    landed = lake.kernel.committer.commit(lake.pointer("main"), request).logged
    assert landed is not None
    assert [op.key for op in landed.entry.operations] == [("dev",)]


def test_a_change_merged_by_another_branch_meanwhile_and_reverted_is_not_merged_again(lake: Lake) -> None:
    request = prepared(lake, "dev")
    merge(lake, "dev", "other")
    merge(lake, "other")
    lake.put("dev", location="s3://taken-back")
    assert lake.kernel.committer.commit(lake.pointer("main"), request).logged is None


def test_a_target_that_was_reset_meanwhile_is_searched_again(lake: Lake) -> None:
    request = prepared(lake, "dev")
    lake.refs.assign("main", "dev", meta=META)
    assert lake.kernel.committer.commit(lake.pointer("main"), request).logged is None


def test_a_source_with_commits_of_the_target_that_came_after_the_preparation_is_searched_again(lake: Lake) -> None:
    newer = lake.put("newer")
    lake.refs.create("ahead", meta=META)
    lake.put("ahead", on="ahead")
    lake.refs.assign("other", "main~1", meta=META)
    request = prepared(lake, "ahead", "other")
    lake.refs.assign("other", newer, meta=META)
    landed = lake.kernel.committer.commit(lake.pointer("other"), request).logged
    assert landed is not None
    assert [op.key for op in landed.entry.operations] == [("ahead",)]


def test_a_merge_is_later_than_its_source_whatever_the_clocks_say(lake: Lake) -> None:
    clock = lake.store.clock
    assert isinstance(clock, ManualClock)
    clock.move(1)
    lake.put("ahead", on="dev")
    source = lake.refs.resolve("dev").logged.entry.time
    clock.move(-1)
    merge(lake, "dev")
    assert lake.refs.resolve("main").logged.entry.time > source
    lake.refs.create("later", "dev", meta=META)
    assert lake.refs.resolve("later").logged.entry.time > source
    lake.put("later", on="later")
    merge(lake, "later")
    assert lake.kernel.committer.commit(lake.pointer("main"), prepared(lake, "dev")).logged is None


def test_a_merge_does_not_wait_for_ever_for_another_one_into_its_branch(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merging, "TURN_SECONDS_MAX", 0.01)
    resolved = lake.refs.resolve("dev")
    request = MergeRequest(lake.kernel, resolved.logged, resolved.pointer, META)
    with ExitStack() as held:
        for turn in merging._TURNS:
            held.enter_context(turn)
        assert merging.commit_merge(lake.kernel, lake.pointer("main"), request).logged is not None
    assert not any(turn.locked() for turn in merging._TURNS)
