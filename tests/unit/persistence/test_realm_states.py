"""The life cycle of realms has exactly the moves that the design draws."""

from __future__ import annotations

import itertools

import pytest

from headwater.persistence.realms.realm_states import (
    DELETABLE,
    MOVES,
    NEXT_STEP,
    RealmStatus,
    check_deletable,
    check_is,
    check_move,
)
from headwater.schemas.errors import RealmStateConflict

DRAWN = {
    # CREATED → INITIALIZING | LOADING → ACTIVE | INACTIVE
    ("CREATED", "INITIALIZING"),
    ("CREATED", "LOADING"),
    ("INITIALIZING", "ACTIVE"),
    ("INITIALIZING", "INACTIVE"),
    ("LOADING", "ACTIVE"),
    ("LOADING", "INACTIVE"),
    # ACTIVE ⇄ INACTIVE → PURGING → PURGED
    ("ACTIVE", "INACTIVE"),
    ("INACTIVE", "ACTIVE"),
    ("INACTIVE", "PURGING"),
    ("PURGING", "PURGED"),
    # a failed INITIALIZING or LOADING may go to PURGING
    ("INITIALIZING", "PURGING"),
    ("LOADING", "PURGING"),
}


@pytest.mark.parametrize(("found", "wanted"), list(itertools.product(RealmStatus, RealmStatus)))
def test_a_move_is_allowed_if_and_only_if_it_is_drawn(found: RealmStatus, wanted: RealmStatus) -> None:
    if (found, wanted) in DRAWN:
        check_move("r", found, wanted)
        return
    with pytest.raises(RealmStateConflict) as refused:
        check_move("r", found, wanted)
    assert refused.value.facts == {"realm": "r", "status": str(found)}
    assert refused.value.remedy == NEXT_STEP[found]


def test_the_table_knows_every_state() -> None:
    assert set(MOVES) == set(NEXT_STEP) == set(RealmStatus)


@pytest.mark.parametrize("status", list(RealmStatus))
def test_only_created_and_purged_realms_can_be_deleted(status: RealmStatus) -> None:
    if status in ("CREATED", "PURGED"):
        assert status in DELETABLE
        check_deletable("r", status)
        return
    with pytest.raises(RealmStateConflict, match="cannot be deleted"):
        check_deletable("r", status)


def test_a_step_of_one_state_is_refused_in_every_other() -> None:
    check_is("r", RealmStatus.ACTIVE, RealmStatus.ACTIVE)
    for other in set(RealmStatus) - {RealmStatus.ACTIVE}:
        with pytest.raises(RealmStateConflict, match=f"is {other}, not ACTIVE"):
            check_is("r", other, RealmStatus.ACTIVE)
