"""A base that a restore has removed from its pointer's log is refused, though its objects may still be cached."""

from __future__ import annotations

import msgspec
import pytest

import headwater
from headwater import IcebergTable, Put
from headwater.producer.references.reference_moves import checked_base
from headwater.schemas.errors import ReferenceNotFound


@pytest.mark.parametrize("beyond_the_head", [True, False])
def test_a_base_that_is_not_in_its_pointers_log_is_refused(beyond_the_head: bool) -> None:
    with headwater.open("memory://", create=True) as engine:
        realm = engine.ensure_realm()
        lake = realm.ensure_catalog("lake")
        lake.branch().commit([Put(("t",), IcebergTable("s3://t"))])
        target = lake.references.resolve("main").logged
        assert checked_base(realm.kernel, target) is not None
        entry = msgspec.structs.replace(target.entry, seq=target.entry.seq + beyond_the_head)
        lost = msgspec.structs.replace(target, entry=entry, entry_id=target.entry_id[:-1] + b"\x00")
        with pytest.raises(ReferenceNotFound):
            checked_base(realm.kernel, lost)
