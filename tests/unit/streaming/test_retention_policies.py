"""Policies of the type `retention` decide how far floors rise; the most careful of what applies to a branch wins."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import pytest

from headwater.persistence.log.log_entry import LogRecord
from headwater.persistence.records.records import PutRecord, RecordsRequest
from headwater.persistence.store import open_store
from headwater.producer.access.policies import POLICIES, POLICIES_POINTER, POLICY, Policies, Target
from headwater.producer.access.writing import WriteMeta
from headwater.producer.commits.operations import Put
from headwater.producer.content.content_types import Namespace
from headwater.schemas.change import Value
from headwater.schemas.errors import InvalidInput
from headwater.streaming.expire.expire import ExpiredPointer, Expiry
from headwater.streaming.expire.retention import parse_retention, retention_text
from tests.support.faults.manual_clock import ManualClock
from tests.support.fixtures.catalog_lake import META, Lake

WHO = WriteMeta("ada")
DAY = 86_400
COMMITS = 10
REALM = Target()


@pytest.fixture
def lake() -> Iterator[Lake]:
    """One commit a day on main, the newest of today."""
    with open_store(f"memory://{secrets.token_hex(6)}", create=True, clock=ManualClock()) as store:
        made = Lake(store)
        clock = store.clock
        assert isinstance(clock, ManualClock)
        for number in range(COMMITS):
            clock.move(DAY)
            made.commit(Put((f"n{number}",), Namespace()))
        yield made


def attach(lake: Lake, name: str, target: Target, **content: Value) -> None:
    policies = Policies(lake.kernel)
    policies.create(name, type="retention", content=content, meta=WHO)
    policies.attach(name, target, meta=WHO)


def explained(lake: Lake, pointer: str, rules: str = "*=4n", *, dry_run: bool = True) -> ExpiredPointer:
    report = Expiry(lake.kernel, parse_retention(rules)).run(dry_run=dry_run)
    return next(one for one in report.pointers if one.pointer == pointer)


def kept(lake: Lake, rules: str = "*=4n") -> int:
    """Entries of main that stay."""
    one = explained(lake, lake.pointer("main"), rules)
    return one.head_seq - one.floor_after + 1


def test_the_setting_holds_only_where_no_policy_applies(lake: Lake) -> None:
    assert kept(lake) == 4
    attach(lake, "of-realm", REALM, entries=6)
    assert kept(lake) == 6
    attach(lake, "of-lake", Target(lake.catalog.id), entries=2)
    assert kept(lake) == 2
    Policies(lake.kernel).detach("of-lake", Target(lake.catalog.id), meta=WHO)
    assert kept(lake) == 6


def test_a_policy_of_another_catalog_or_another_type_keeps_nothing(lake: Lake) -> None:
    attach(lake, "elsewhere", Target(lake.catalog.id + 1), forever=True)
    policies = Policies(lake.kernel)
    policies.create("compaction", type="compaction", content={"days": 1, "any": "thing"}, meta=WHO)
    policies.attach("compaction", Target(lake.catalog.id), meta=WHO)
    assert kept(lake) == 4


def test_a_policy_on_a_table_keeps_more_of_a_branch_and_never_less(lake: Lake) -> None:
    attach(lake, "of-lake", Target(lake.catalog.id), entries=3)
    attach(lake, "short", Target(lake.catalog.id, ("n1",)), entries=1)
    assert kept(lake) == 3
    attach(lake, "long", Target(lake.catalog.id, ("n1", "orders")), entries=7)
    assert kept(lake) == 7
    one = explained(lake, lake.pointer("main"))
    assert [(it.source, it.keeps) for it in one.allowed] == [
        (f"policy long on cat/{lake.catalog.id} n1.orders", "7n"),
        (f"policy of-lake on cat/{lake.catalog.id}", "3n"),
        (f"policy short on cat/{lake.catalog.id} n1", "1n"),
    ]


def test_two_policies_at_one_place_both_hold(lake: Lake) -> None:
    attach(lake, "a", Target(lake.catalog.id), entries=2)
    attach(lake, "b", Target(lake.catalog.id), days=4.5)
    assert kept(lake) == 5
    attach(lake, "c", Target(lake.catalog.id), forever=True)
    assert kept(lake) == COMMITS + 1


def test_no_policy_shortens_the_history_of_rights(lake: Lake) -> None:
    attach(lake, "none", REALM, entries=1)
    one = explained(lake, POLICIES_POINTER)
    assert one.expired == 0 and [it.keeps for it in one.allowed] == ["forever"]


def test_a_realms_policy_holds_for_the_list_of_catalogs(lake: Lake) -> None:
    for number in range(3):
        lake.catalogs.ensure(f"other{number}", storage_root="file:///other", meta=META)
    attach(lake, "of-realm", REALM, entries=2)
    one = explained(lake, "catalogs", "*=1n")
    assert one.head_seq - one.floor_after + 1 == 2


def test_a_policy_that_was_deleted_and_recreated_is_not_mapped(lake: Lake) -> None:
    attach(lake, "keep", Target(lake.catalog.id), forever=True)
    assert kept(lake) == COMMITS + 1
    policies = Policies(lake.kernel)
    policies.delete("keep", detach_all=True, meta=WHO)
    policies.create("keep", type="retention", content={"forever": True}, meta=WHO)
    assert kept(lake) == 4


def test_a_policy_that_cannot_be_read_keeps_everything(lake: Lake) -> None:
    value: Value = {"name": "old", "type": "retention", "content": {"period": "P30D"}, "description": ""}
    put = PutRecord(type=POLICY, key=(*POLICIES, "old"), value=value)
    lake.kernel.committer.commit(POLICIES_POINTER, RecordsRequest(operations=[put], author="ada", message=""))
    Policies(lake.kernel).attach("old", Target(lake.catalog.id), meta=WHO)
    assert kept(lake, "*=1n") == COMMITS + 1


@pytest.mark.parametrize(
    "content",
    [{}, {"days": -1}, {"days": "30"}, {"entries": 1.5}, {"forever": True, "days": 1}, {"forever": False}, {"period": "P30D"}],
)
def test_an_ambiguous_retention_policy_is_refused(lake: Lake, content: Value) -> None:
    before = _head(lake)
    with pytest.raises(InvalidInput) as refused:
        Policies(lake.kernel).create("p", type="retention", content=content, meta=WHO)
    assert refused.value.field == "content" and refused.value.remedy and _head(lake) == before


def test_a_dry_run_of_expiry_changes_nothing_and_matches_the_real_one(lake: Lake) -> None:
    attach(lake, "of-lake", Target(lake.catalog.id), entries=5)
    main = lake.pointer("main")
    told = explained(lake, main)
    assert (told.floor_before, told.floor_after) == (1, told.head_seq - 4)
    assert explained(lake, main).floor_before == 1
    assert explained(lake, main, dry_run=False).floor_after == told.floor_after
    assert explained(lake, main).floor_before == told.floor_after


def test_rules_are_shown_in_the_units_they_are_written_in() -> None:
    texts = ["30d", "90m", "1h", "45s", "100n", "30d+100n"]
    assert [retention_text(parse_retention(f"*={text}")[0]) for text in texts] == texts
    assert retention_text(parse_retention("*=0s")[0]) == "0d"


def _head(lake: Lake) -> LogRecord | None:
    row = lake.store.backend.read_pointer(lake.kernel.realm, POLICIES_POINTER)
    return None if row is None or not row.head else lake.kernel.walk.header(row.head)
