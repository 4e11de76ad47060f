"""`properties` of an update replaces all: also what another writer sets while the call is on its way."""

from __future__ import annotations

from collections import Counter
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import msgspec
import pytest
from google.protobuf.field_mask_pb2 import FieldMask

from headwater.schemas.rpc import common_pb2, table_pb2, view_pb2
from headwater.service.iceberg.operations.lake_branch import BranchOutcome, CommitAuthor, LakeBranch
from headwater.service.iceberg.operations.table_commits import change_table
from headwater.service.iceberg.operations.views import change_view
from tests.support.fixtures.grpc_rig import SCHEMA, GrpcRig, bearer, grpc_rig

NAME = common_pb2.Name(catalog="lake", path=["db", "t"])
OTHER = CommitAuthor("another")
SETS = {"action": "set-properties", "updates": {"of-another": "1"}}


def _made(port: GrpcRig, kind: str, owner: tuple[str, str]) -> None:
    if kind == "table":
        table = table_pb2.CreateTableRequest(name=NAME, schema=SCHEMA, properties={"first": "1"})
        port.stub("TableService").CreateTable(table, metadata=[owner])
    else:
        sql = [view_pb2.SqlRepresentation(dialect="spark", sql="select 1")]
        view = view_pb2.CreateViewRequest(name=NAME, schema=SCHEMA, representations=sql, properties={"first": "1"})
        port.stub("ViewService").CreateView(view, metadata=[owner])


def _updated(port: GrpcRig, kind: str, owner: tuple[str, str]) -> dict[str, str]:
    mask, target, wanted = FieldMask(paths=["properties"]), common_pb2.ContentRef(name=NAME), {"second": "2"}
    if kind == "table":
        table = table_pb2.UpdateTableRequest(target=target, table=table_pb2.Table(properties=wanted), update_mask=mask)
        return dict(port.stub("TableService").UpdateTable(table, metadata=[owner]).table.properties)
    view = view_pb2.UpdateViewRequest(target=target, view=view_pb2.View(properties=wanted), update_mask=mask)
    return dict(port.stub("ViewService").UpdateView(view, metadata=[owner]).view.properties)


@pytest.mark.parametrize("kind", ["table", "view"])
def test_a_value_set_by_another_writer_meanwhile_is_removed_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    commit, fired = LakeBranch._commit, Counter[str]()
    with grpc_rig(tmp_path) as port:
        port.rig.commit("alpha", ("db",)).raise_for_status()
        owner = bearer(port.rig.token("alpha"))
        _made(port, kind, owner)

        def behind_another(self: LakeBranch, *given: Any) -> BranchOutcome:
            fired["calls"] += 1
            if fired["calls"] == 1:
                if kind == "table":
                    change_table(self, OTHER, ("db", "t"), lambda _: [msgspec.Raw(msgspec.json.encode(SETS))])
                else:
                    change_view(self, OTHER, ("db", "t"), lambda _: [SETS])
            return commit(self, *given)

        monkeypatch.setattr("headwater.service.iceberg.operations.key_locks.KeyLocks.of", _no_lock)
        monkeypatch.setattr(LakeBranch, "_commit", behind_another)
        assert _updated(port, kind, owner) == {"second": "2"}
        assert fired["calls"] >= 3, "the other one's, the first attempt, and another one"


def _no_lock(self: Any, *keys: Any) -> Any:
    """As in another worker, which has locks of its own."""
    return nullcontext()
