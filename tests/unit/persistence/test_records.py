"""Records under a pointer: expectations hold or are refused with a typed error, and pages of one state fit together."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from headwater.persistence.log.log_entry import change_of
from headwater.persistence.reading.pointer_log import PointerLog
from headwater.persistence.records.records import (
    DeleteRecord,
    Expect,
    Expectation,
    PutRecord,
    Record,
    RecordOperation,
    RecordsRequest,
    RecordType,
    Unchanged,
    ValueIs,
    head_records,
)
from headwater.persistence.store import RealmKernel, open_store
from headwater.schemas.errors import (
    InvalidInput,
    ObjectTooLarge,
    RecordChanged,
    RecordExists,
    RecordNotFound,
)

ROLE = RecordType("ROLE", 3)
GROUP = RecordType("GROUP", 4)
POINTER = "roles"


@pytest.fixture
def kernel() -> Iterator[RealmKernel]:
    with open_store("memory://", create=True) as store:
        yield store.kernel("test#1")


def put(key: str, value: int, expect: Expectation = Expect.ANYTHING, type: RecordType = ROLE) -> PutRecord:
    return PutRecord(type=type, key=tuple(key.split("/")), value={"n": value}, expect=expect)


def commit(kernel: RealmKernel, *operations: RecordOperation, **more: object) -> bool:
    """Whether there was something to do."""
    request = RecordsRequest(operations=operations, author="me", message="test", **more)
    return kernel.committer.commit(POINTER, request).logged is not None


def read(kernel: RealmKernel, key: str) -> Record:
    found = head_records(kernel, POINTER).get(tuple(key.split("/")))
    assert found is not None
    return found


def test_a_pointer_without_history_has_no_records(kernel: RealmKernel) -> None:
    records = head_records(kernel, POINTER)
    assert (records.seq, records.get(("a",)), records.page(), list(records.all())) == (0, None, [], [])


def test_what_was_put_is_read_until_it_is_deleted(kernel: RealmKernel) -> None:
    commit(kernel, put("a", 1), put("b", 2))
    assert (read(kernel, "a").value, read(kernel, "b").type) == ({"n": 1}, "ROLE")
    commit(kernel, DeleteRecord(key=("a",)))
    assert head_records(kernel, POINTER).get(("a",)) is None
    assert [record.key for record in head_records(kernel, POINTER).page()] == [("b",)]


def test_a_record_keeps_its_content_id_while_its_value_changes(kernel: RealmKernel) -> None:
    commit(kernel, put("a", 1))
    before = read(kernel, "a")
    commit(kernel, put("a", 2))
    after = read(kernel, "a")
    assert after.content_id == before.content_id and after.object_id != before.object_id
    commit(kernel, put("a", 2, type=GROUP))
    assert read(kernel, "a").content_id != before.content_id  # another thing under the same key


def test_a_new_record_is_refused_where_one_exists(kernel: RealmKernel) -> None:
    commit(kernel, put("a", 1, Expect.ABSENT))
    with pytest.raises(RecordExists) as refused:
        commit(kernel, put("a", 2, Expect.ABSENT))
    assert refused.value.facts["key"] == ["a"]
    assert read(kernel, "a").value == {"n": 1}


@pytest.mark.parametrize("expect", [Expect.PRESENT, Unchanged(7), ValueIs({"n": 1})])
def test_a_required_record_that_is_missing_is_an_error(kernel: RealmKernel, expect: Expectation) -> None:
    for operation in (put("a", 2, expect), DeleteRecord(key=("a",), expect=expect)):
        with pytest.raises(RecordNotFound):
            commit(kernel, operation)


def test_a_write_over_what_another_one_wrote_is_refused(kernel: RealmKernel) -> None:
    commit(kernel, put("a", 1))
    seen = read(kernel, "a")
    commit(kernel, put("a", 2))
    for expect in (Unchanged(seen.object_id), ValueIs(seen.value)):
        with pytest.raises(RecordChanged):
            commit(kernel, put("a", 3, expect))
        with pytest.raises(RecordChanged):
            commit(kernel, DeleteRecord(key=("a",), expect=expect))
    now = read(kernel, "a")
    assert commit(kernel, put("a", 3, Unchanged(now.object_id)))
    assert commit(kernel, put("a", 4, ValueIs({"n": 3})))


def test_the_same_value_written_by_another_one_is_not_unchanged(kernel: RealmKernel) -> None:
    commit(kernel, put("a", 1))
    seen = read(kernel, "a")
    commit(kernel, put("a", 2))
    commit(kernel, put("a", 1))
    assert commit(kernel, put("a", 5, ValueIs(seen.value)))
    with pytest.raises(RecordChanged):
        commit(kernel, put("a", 6, Unchanged(seen.object_id)))


def test_what_changes_nothing_adds_no_entry(kernel: RealmKernel) -> None:
    assert commit(kernel, put("a", 1))
    assert not commit(kernel, put("a", 1), DeleteRecord(key=("b",), expect=Expect.ANYTHING))
    assert head_records(kernel, POINTER).seq == 1


def test_one_refused_operation_keeps_out_the_whole_request(kernel: RealmKernel) -> None:
    commit(kernel, put("a", 1))
    with pytest.raises(RecordExists):
        commit(kernel, put("b", 1), put("a", 2, Expect.ABSENT))
    assert [record.key for record in head_records(kernel, POINTER).all()] == [("a",)]


def test_a_request_that_writes_one_record_twice_is_refused(kernel: RealmKernel) -> None:
    with pytest.raises(InvalidInput, match="twice"):
        commit(kernel, put("a", 1), DeleteRecord(key=("a",)))


def test_a_value_that_fits_no_row_is_refused_alone(kernel: RealmKernel) -> None:
    """Others that wait in the same batch must not fail with it."""
    big = PutRecord(type=ROLE, key=("big",), value={"text": "x" * 300_001})
    with ThreadPoolExecutor(8) as threads:
        small = [threads.submit(commit, kernel, put(f"s{n}", n)) for n in range(40)]
        with pytest.raises(ObjectTooLarge):
            commit(kernel, big)
        assert all(done.result() for done in small)
    assert len(list(head_records(kernel, POINTER).all())) == 40


def test_if_many_create_one_record_one_succeeds(kernel: RealmKernel) -> None:
    def create(n: int) -> bool:
        try:
            return commit(kernel, put("a", n, Expect.ABSENT))
        except RecordExists:
            return False

    with ThreadPoolExecutor(16) as threads:
        assert sum(threads.map(create, range(64))) == 1


def test_pages_continue_in_key_order_and_subtrees_are_ranges(kernel: RealmKernel) -> None:
    names = [f"{group}/{n:03d}" for group in ("x", "xy", "y") for n in range(120)]
    for start in range(0, len(names), 60):
        commit(kernel, *(put(name, start) for name in names[start : start + 60]))
    state = head_records(kernel, POINTER)
    paged, after = [], None
    while page := state.page(("x",), after=after, limit=50):
        paged += [record.key for record in page]
        after = page[-1].key
    assert paged == [("x", f"{n:03d}") for n in range(120)]
    assert [record.key for record in state.all()] == sorted(tuple(name.split("/")) for name in names)


def test_pages_of_one_state_do_not_see_what_comes_later(kernel: RealmKernel) -> None:
    commit(kernel, put("a", 1), put("c", 1))
    state = head_records(kernel, POINTER)
    first = state.page(limit=1)
    commit(kernel, put("b", 1), DeleteRecord(key=("c",)))
    assert [record.key for record in state.page(after=first[-1].key)] == [("c",)]


@pytest.mark.parametrize("limit", [0, -1, 1_001])
def test_a_page_has_a_bound(kernel: RealmKernel, limit: int) -> None:
    with pytest.raises(InvalidInput):
        head_records(kernel, POINTER).page(limit=limit)


def test_a_change_contains_records_by_value(kernel: RealmKernel) -> None:
    commit(kernel, put("a", 1))
    commit(kernel, put("a", 2), request_id="mine", headers={"k": "v"})
    commit(kernel, DeleteRecord(key=("a",)))
    changes = [change_of(logged, kernel.realm) for logged in PointerLog(kernel, POINTER).forward()]
    told = [(change.operations[0].op, change.operations[0].before, change.operations[0].after) for change in changes]
    assert told == [("put", None, {"n": 1}), ("put", {"n": 1}, {"n": 2}), ("delete", {"n": 2}, None)]
    assert (changes[1].request_id, changes[1].headers) == ("mine", {"k": "v"})
    assert {change.operations[0].content_id for change in changes} == {changes[0].operations[0].content_id}


def test_a_caller_that_repeats_its_request_gets_the_first_answer(kernel: RealmKernel) -> None:
    request = RecordsRequest(
        operations=[put("a", 1, Expect.ABSENT)], author="me", message="", request_id="r1", request_id_is_callers=True
    )
    first = kernel.committer.commit(POINTER, request)
    again = kernel.committer.commit(POINTER, request)
    assert again.replayed and again.logged is not None and first.logged is not None
    assert again.logged.entry_id == first.logged.entry_id
