"""Views, the tables keeper and the audit take up a history that is published again: what was replaced leaves nothing behind."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from headwater.consumers.audit.kafka_history import KafkaHistory
from headwater.consumers.audit.verify import verify
from headwater.consumers.kafka.kafka_source import KafkaSource
from headwater.consumers.views.live_views import State, effect_of
from headwater.consumers.views.record_views import RecordViews
from headwater.consumers.views.table_views import TableViews
from headwater.schemas.change import Change, KeyPath
from headwater.schemas.errors import ChainBroken, ObjectNotFound
from headwater.schemas.kafka_records import FeedRecord, RecordType
from tests.support.models.feed_histories import POINTER, history, seqs
from tests.support.models.feed_records import anew, control, going_on, replaced

LOG = history(10)
COMMON = 4
T: KeyPath = ("t",)


class StoreOf:
    """What the store holds now."""

    def __init__(self, log: list[Change]) -> None:
        self.log = log

    def state_at(self, pointer: str, seq: int) -> State:
        if not 0 < seq <= len(self.log):
            raise ObjectNotFound(f"{pointer} has no entry {seq}.")
        return {key: state for key, state in effect_of(self.log[seq - 1]).after.items() if state is not None}

    def change_at(self, pointer: str, seq: int) -> Change:
        if not 0 < seq <= len(self.log):
            raise ObjectNotFound(f"{pointer} has no entry {seq}.")
        return self.log[seq - 1]


def value(state: State) -> object:
    return None if T not in state else state[T].value["v"]


def newest(log: list[Change]) -> object:
    return value(StoreOf(log).state_at(POINTER, len(log)))


@pytest.mark.parametrize("seen", range(1, 11))
@pytest.mark.parametrize("length", [COMMON, 6, 10, 14])
def test_the_keeper_of_tables_holds_the_history_that_is_published_now(seen: int, length: int) -> None:
    new = replaced(LOG, COMMON, length)
    for views in (TableViews(StoreOf(new)), TableViews(StoreOf(new), begins=2)):
        for record in [*anew(1, LOG[:seen]), *anew(2, new)]:
            views.apply(record)
        assert value(views.states[POINTER]) == newest(new)
        standing = views.standings[POINTER]
        assert (standing.generation, standing.seq, standing.entry_id) == (2, length, new[-1].entry_id)


def test_the_keeper_drops_a_generation_that_repeats_what_it_has() -> None:
    views = TableViews(StoreOf(LOG))
    for record in anew(1, LOG):
        views.apply(record)
    views.take()
    for record in anew(2, LOG):
        views.apply(record)
    changed, moved = views.take()
    assert changed == {} and moved[POINTER] is not None and moved[POINTER].generation == 2


def test_the_keeper_forgets_a_purged_pointer_and_one_that_the_new_history_lacks() -> None:
    for end in ([control(RecordType.PURGED, LOG, 10)], anew(2, [])):
        views = TableViews(StoreOf([]))
        for record in [*anew(1, LOG), *end]:
            views.apply(record)
        changed, _ = views.take()
        assert changed == {(POINTER, T): None} and views.states[POINTER] == {}


@pytest.mark.parametrize("seen", range(COMMON + 1, 11))
@pytest.mark.parametrize("length", [COMMON, 6, 10, 14])
def test_live_views_start_over_with_a_replaced_history(seen: int, length: int) -> None:
    new = replaced(LOG, COMMON, length)
    server = SimpleNamespace(state_at=StoreOf(new).state_at, state_of_base=None)
    views = RecordViews(server)  # type: ignore[arg-type]
    for record in [*anew(1, LOG[:seen]), *anew(2, new)]:
        views.take(record)
    assert value(dict(views.views.newest(POINTER))) == newest(new)
    assert views.views.pointers[POINTER].seq == length


def test_live_views_that_start_later_never_see_what_was_replaced() -> None:
    new = replaced(LOG, COMMON, 6)
    views = RecordViews(None, begins=2)
    for record in [*anew(1, LOG), *anew(2, new)]:
        views.take(record)
    assert value(dict(views.views.newest(POINTER))) == newest(new)


def test_live_views_of_a_topic_that_has_lost_its_first_records_need_a_server() -> None:
    late = anew(1, LOG)[6:]
    with pytest.raises(ChainBroken, match="server"):
        RecordViews(None).take(late[0])
    views = RecordViews(SimpleNamespace(state_at=StoreOf(LOG).state_at, state_of_base=None))  # type: ignore[arg-type]
    for record in late:
        views.take(record)
    assert value(dict(views.views.newest(POINTER))) == newest(LOG)


def test_live_views_drop_a_purged_pointer() -> None:
    views = RecordViews(None)
    for record in [*anew(1, LOG), control(RecordType.PURGED, LOG, 10)]:
        views.take(record)
    assert views.views.pointers == {}


def audited(tmp_path: Path, records: list[FeedRecord]) -> tuple[list[int], bool]:
    audit = KafkaHistory(KafkaSource(bootstrap="nowhere"), tmp_path)
    for record in records:
        audit.keep(record)
    audit.flush()
    after_seq, anchor = audit.start(POINTER)
    verified = verify(POINTER, audit.changes(POINTER), after_seq=after_seq, anchor=anchor)
    assert verified.is_whole, verified.flaw
    return seqs(list(audit.changes(POINTER))), verified.anchored


def test_an_audit_takes_the_history_that_is_published_now(tmp_path: Path) -> None:
    new = replaced(LOG, COMMON, 6)
    assert audited(tmp_path, [*anew(1, LOG), *anew(2, new)]) == ([1, 2, 3, 4, 5, 6], True)


def test_an_audit_puts_generations_together_in_whatever_order_their_partitions_are_read(tmp_path: Path) -> None:
    first, second = anew(1, LOG[:6]), going_on(2, LOG, 6)
    for number, records in enumerate(([*first, *second], [*second, *first])):
        folder = tmp_path / str(number)
        folder.mkdir()
        assert audited(folder, records) == (list(range(1, 11)), True)


def test_an_audit_reports_that_it_begins_after_records_lost_to_retention(tmp_path: Path) -> None:
    assert audited(tmp_path, anew(1, LOG)[6:]) == ([6, 7, 8, 9, 10], False)
