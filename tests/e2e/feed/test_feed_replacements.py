"""A merge or transplant puts another content in the place of a table: an end for every reader, whatever it filters by."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import httpx
import msgspec
import pytest

from headwater import Delete, Filter, IcebergTable, IcebergView, Namespace, Put
from headwater.consumers.audit.replay import Replayed, replay
from headwater.consumers.clients.feed_http import FeedTarget
from headwater.consumers.clients.http_poll import HttpPoll
from headwater.consumers.clients.reader import Reader
from headwater.consumers.clients.sse import HttpStream
from headwater.embedded import CatalogHandle, ReferenceHandle
from headwater.schemas.change import Base, Change, KeyPath, Op
from headwater.schemas.redaction import as_seen
from tests.support.servers.feed_server import FeedServer

KEY = ("ns", "t")
OTHERS = {
    "view": IcebergView("s3://v/1", version_id=1, schema_id=0),
    "table": IcebergTable("s3://t/another"),
    "namespace": Namespace(),
}
_numbers = itertools.count(1)


class Replaced(NamedTuple):
    branch: ReferenceHandle
    table_id: str
    change: Change

    @property
    def filters(self) -> list[Filter]:
        """Of readers that follow the table."""
        return [
            Filter(types=("ICEBERG_TABLE",), prefix=KEY),
            Filter(content_ids=(self.table_id,)),
            Filter(operations=(Op.DELETE,)),
        ]


def newest(branch: ReferenceHandle) -> Change:
    return list(branch.changes())[-1]


@pytest.fixture(params=["merge", "transplant"])
def brought_by(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=list(OTHERS))
def replaced(request: pytest.FixtureRequest, shared_lake: CatalogHandle, brought_by: str) -> Replaced:
    name = f"replaced{next(_numbers)}"
    branch = shared_lake.create_branch(name)
    branch.commit([Put(("ns",), Namespace()), Put(KEY, IcebergTable("s3://t/1"))])
    table = newest(branch)
    work = shared_lake.create_branch(f"{name}-work", name)
    work.commit([Delete(KEY)])
    work.commit([Put(KEY, OTHERS[request.param])])
    shared_lake.merge(f"{name}-work", name)
    if brought_by == "transplant":  # that merge, onto a branch that still has the table
        merged = newest(branch)
        branch = shared_lake.create_branch(f"{name}-onto", f"{name}@{table.entry_id}")
        shared_lake.transplant([merged.entry_id], f"{name}-onto")
    return Replaced(branch, table.operations[1].content_id, newest(branch))


def test_replaced_content_ends_with_its_own_operation(replaced: Replaced) -> None:
    ended, begun = replaced.change.operations
    assert (ended.op, ended.key, ended.content_id, ended.type) == (Op.DELETE, KEY, replaced.table_id, "ICEBERG_TABLE")
    assert (begun.op, begun.key, begun.before) == (Op.PUT, KEY, None) and begun.content_id != replaced.table_id


def test_no_filter_hides_that_a_table_was_replaced(replaced: Replaced, shared_feed: FeedServer) -> None:
    pointer = replaced.branch.pointer
    for filter in replaced.filters:
        found = {"store": list(replaced.branch.changes(filter=filter))}
        with httpx.Client() as client:
            target = FeedTarget(server=shared_feed.url, pointers=(pointer,), filter=filter)
            poll = HttpPoll(client, target)
            found["poll"] = list(Reader(poll).changes(follow=False))
            stream = Reader(HttpStream(client, target)).changes()
            found["sse"] = [next(stream) for _ in found["store"]]
            name = f"follows-{next(_numbers)}"
            body = {"pointers": [pointer], "after": "earliest", "filter": msgspec.to_builtins(filter)}
            assert client.put(f"{shared_feed.feed}/subscriptions/{name}", json=body).status_code in (200, 201)
            page = client.get(f"{shared_feed.feed}/subscriptions/{name}/changes").json()
            found["subscription"] = msgspec.convert(page["changes"], list[Change])
        assert {way: changes[-1] for way, changes in found.items()} == dict.fromkeys(found, replaced.change)


def test_rights_do_not_hide_it_either(replaced: Replaced) -> None:
    part = as_seen(replaced.change, lambda key: key == KEY)
    assert part is not None and [op.op for op in part.operations] == [Op.DELETE, Op.PUT]


def test_applying_all_changes_yields_the_state(replaced: Replaced) -> None:
    snapshot = {entry.key: entry for entry in replaced.branch.snapshot()}

    def state_of_base(base: Base) -> dict[KeyPath, Replayed]:
        found = replaced.branch.snapshot(f"{replaced.branch.name}@{base.commit_id}")
        return {entry.key: Replayed(entry.content_id, entry.type, entry.value) for entry in found}

    replayed = replay(replaced.branch.changes(), state_of_base)
    assert {key: (one.content_id, one.type) for key, one in replayed.items()} == {
        key: (entry.content_id, entry.type) for key, entry in snapshot.items()
    }
