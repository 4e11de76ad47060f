"""Sets that one query over all topics feeds: what does not follow comes from the log, and nothing is passed over."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.persistence.backends.memory.memory_backend import MemoryBackend, MemoryStore
from headwater.schemas.errors import SparkFailed, StoreUnavailable
from headwater.streaming.retained.retained_store import RetainedState, RetainedStore
from headwater.streaming.retained.set_increment import NewChange, change_of_entry
from headwater.streaming.spark_jobs.retained_job import HERE_CHANGES_MAX, RetainedJob, lag
from headwater.streaming.spark_jobs.topic_query import News
from headwater.streaming.stream import realm_updates
from headwater.streaming.stream.realm_updates import STALLED_SECONDS, RealmUpdates
from tests.support.fixtures.maintained import MAIN, Maintained
from tests.support.models.commit_harness import REALM


class Fed:
    """A realm, and its set without Spark."""

    def __init__(self, folder: Path) -> None:
        backend = MemoryBackend(MemoryStore())
        backend.create_schema()
        self.realm = Maintained(backend)
        self.sets = RetainedStore(folder, REALM)
        self.seconds = 0.0
        self.at_run = lambda: None
        self.updates = RealmUpdates(self.realm.store, self.job_of, changes_per_batch=100, now=lambda: self.seconds)

        self.here_max = HERE_CHANGES_MAX
        self.queries = 0

    def job_of(self, instance: str) -> RetainedJob:
        fed = self

        class Job(RetainedJob):
            def run(self, **options: object) -> RetainedState:
                fed.at_run()
                return super().run(**options)  # type: ignore[arg-type]

            def _stream(self, *_: object) -> None:
                fed.queries += 1
                raise SparkFailed("Python worker failed to connect back.")

        return Job(None, self.realm.store, "none", self.sets, here_max=fed.here_max)  # type: ignore[arg-type]

    def commit(self, count: int = 1) -> list[NewChange]:
        return [change_of_entry(self.realm.write()) for _ in range(count)]

    def add(self, changes: list[NewChange]) -> bool:
        return self.updates.add(REALM, News(changes=changes))

    def turn(self) -> tuple[str, int]:
        updated = self.updates.from_topics(REALM)
        return updated.source, updated.behind


@pytest.fixture
def fed(tmp_path: Path) -> Fed:
    made = Fed(tmp_path)
    made.commit(2)
    return made


def test_a_set_begins_in_the_log_and_continues_from_its_topics(fed: Fed) -> None:
    assert not fed.add(fed.commit()), "there is no set that it could follow"
    assert fed.turn() == ("log", 0)
    changes = fed.commit(3)
    assert fed.turn() == ("kafka", 3)
    assert fed.add(changes) and fed.add(changes), "what comes again is recognized"
    assert fed.turn() == ("kafka", 0)


def test_a_gap_is_left_out_until_the_log_has_filled_it(fed: Fed) -> None:
    fed.turn()
    first, second, third = fed.commit(3)
    assert fed.add([first]) and not fed.add([third])
    assert not fed.add([second, third]), "nothing is added between a loss and the turn that mends it"
    assert fed.turn() == ("log", 0)
    assert fed.add(fed.commit())
    assert fed.turn() == ("kafka", 0)


def test_what_a_query_has_failed_to_add_is_added_without_it(fed: Fed) -> None:
    fed.here_max = 2
    fed.turn()
    fed.commit(3)
    fed.updates.lose(REALM, "a gap")
    assert fed.turn() == ("log", 0) and fed.queries == 1
    assert fed.add(fed.commit()) and fed.turn() == ("kafka", 0)


def test_a_loss_during_an_update_of_a_set_is_not_forgotten(fed: Fed) -> None:
    fed.turn()
    fed.commit()
    fed.updates.lose(REALM, "a record could not be read")
    fed.at_run = lambda: fed.updates.lose(REALM, "and another one")
    fed.turn()
    fed.at_run = lambda: None
    assert not fed.add(fed.commit())
    assert fed.turn() == ("log", 0)


def test_a_failed_turn_is_retried(fed: Fed) -> None:
    fed.turn()
    fed.commit()
    fed.updates.lose(REALM, "a gap")

    def fail() -> None:
        raise StoreUnavailable("the store is away.")

    fed.at_run = fail
    with pytest.raises(StoreUnavailable):
        fed.turn()
    fed.at_run = lambda: None
    assert fed.turn() == ("log", 0)


def test_a_set_that_is_being_changed_keeps_no_other_realm_waiting(fed: Fed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(realm_updates, "LOCK_SECONDS", 0.01)
    fed.turn()
    changes = fed.commit()
    with fed.updates.lock_of(REALM):
        assert not fed.add(changes)
    assert fed.turn() == ("log", 0)


def test_a_set_whose_topics_do_not_advance_continues_from_the_log(fed: Fed) -> None:
    fed.turn()
    changes = fed.commit(2)
    assert fed.turn() == ("kafka", 2)
    fed.seconds = STALLED_SECONDS
    assert fed.add(changes[:1])
    assert fed.turn() == ("kafka", 1), "it moves"
    fed.seconds += STALLED_SECONDS
    assert fed.turn() == ("kafka", 1)
    fed.seconds += 1
    assert fed.turn() == ("log", 0)


def test_entries_that_the_store_has_lost_are_not_added(fed: Fed) -> None:
    fed.turn()
    state = fed.sets.load()
    assert state is not None
    (change,) = fed.commit()
    lost = change._replace(entry_id=f"{1:016x}{'ab' * 24}")
    assert not fed.add([lost])
    assert fed.sets.load() == state
    assert fed.turn() == ("log", 0)
    after = fed.sets.load()
    assert after is not None and after.positions[MAIN].entry_id == change.entry_id
    assert lag(fed.realm.store, after) == {}
