"""The state at any commit, by key and in pages, on the embedded backends."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.persistence.index import STRIPE
from headwater.persistence.log.log_entry import CONTENT
from headwater.persistence.reading.pointer_log import PointerLog
from headwater.persistence.rows import Table
from headwater.persistence.store import open_store
from headwater.producer.commits.operations import Delete, Put
from headwater.producer.content.content_types import IcebergTable, IcebergView, Namespace, OtherContent
from headwater.producer.content.snapshots import Snapshots
from headwater.schemas.change import KeyPath
from headwater.schemas.entry_ids import EMPTY
from headwater.schemas.errors import CursorExpired, InvalidInput
from tests.support.fixtures.catalog_lake import EMBEDDED, META, Lake, embedded_url, open_lake


@pytest.fixture(params=EMBEDDED)
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Lake]:
    with open_lake(embedded_url(request.param, tmp_path)) as opened:
        yield opened


def fill(lake: Lake) -> list[KeyPath]:
    keys: list[KeyPath] = []
    for outer in ("acc", "accounting", "b"):
        lake.commit(Put((outer,), Namespace()), Put((outer, "in"), Namespace()))
        keys += [(outer,), (outer, "in")]
        for number in range(30):
            key = (outer, "in", f"t{number:02d}") if number % 2 else (outer, f"t{number:02d}")
            lake.put(*key)
            keys.append(key)
    return sorted(keys)


def test_every_page_size_gives_all_keys_in_order(lake: Lake) -> None:
    keys = fill(lake)
    for limit in (1, 7, 96, 1_000):
        assert [entry.key for entry in lake.entries(limit=limit)] == keys
        below = [key for key in keys if key[0] == "acc" and len(key) > 1]
        assert [entry.key for entry in lake.entries(prefix=("acc",), limit=limit)] == below


def test_one_level_is_listed_without_deeper_ones(lake: Lake) -> None:
    keys = fill(lake)
    at = lake.refs.resolve("main").logged
    for prefix in ((), ("acc",), ("acc", "in"), ("nowhere",)):
        wanted = [key for key in keys if key[: len(prefix)] == prefix and len(key) == len(prefix) + 1]
        found: list[KeyPath] = []
        token = None
        while True:
            page = lake.snapshots.page(at, prefix=prefix, children_only=True, limit=4, token=token)
            found += [entry.key for entry in page.entries]
            token = page.next_token
            if token is None:
                break
        assert found == wanted


def test_types_are_filtered(lake: Lake) -> None:
    lake.commit(
        Put(("n",), Namespace()),
        Put(("t",), IcebergTable("s3://1")),
        Put(("v",), IcebergView("s3://2")),
        Put(("p",), OtherContent("PAIMON_TABLE", {})),
    )
    at = lake.refs.resolve("main").logged
    page = lake.snapshots.page(at, types=["ICEBERG_TABLE", "ICEBERG_VIEW"])
    assert [entry.key for entry in page.entries] == [("t",), ("v",)]
    with pytest.raises(InvalidInput):
        lake.snapshots.page(at, types=["PAIMON_TABLE"])


def test_pages_of_one_listing_fit_together_whatever_is_committed_between_them(lake: Lake) -> None:
    keys = fill(lake)
    page = lake.snapshots.page(lake.refs.resolve("main").logged, limit=50)
    lake.commit(*[Delete(key) for key in keys[60:80] if key[-1].startswith("t")])
    lake.put("zzz")
    rest = lake.snapshots.page(lake.refs.resolve("main").logged, limit=1_000, token=page.next_token)
    assert [entry.key for entry in [*page.entries, *rest.entries]] == keys
    assert (rest.seq, rest.commit_id) == (page.seq, page.commit_id)


def test_a_snapshot_and_the_log_after_it_have_no_seam(lake: Lake) -> None:
    for number in range(30):
        lake.put(f"t{number % 7}", location=f"s3://{number}")
    at = lake.refs.resolve("main~11").logged
    page = lake.snapshots.page(at)
    state = {entry.key: entry.value for entry in page.entries}
    for logged in PointerLog(lake.kernel, page.pointer).forward(page.seq):
        for operation in logged.entry.operations:
            assert operation.after is not None
            state[operation.key] = operation.after
    assert state == {entry.key: entry.value for entry in lake.entries()}


def test_contents_are_got_by_key_at_any_commit(lake: Lake) -> None:
    commits = [lake.put("t", location=f"s3://{number}") for number in range(60)]
    for number, commit in enumerate(commits):
        found = lake.snapshots.get(lake.refs.resolve(commit).logged, [("t",), ("absent",)])
        assert {key: entry.value for key, entry in found.items()} == {("t",): {"metadata_location": f"s3://{number}"}}
    assert lake.snapshots.get(lake.refs.resolve("main~60").logged, [("t",)]) == {}
    assert lake.snapshots.page(lake.refs.resolve(EMPTY.hex()).logged).entries == []


def test_tokens_of_elsewhere_are_refused(lake: Lake) -> None:
    fill(lake)
    other = lake.catalogs.create("other", meta=META)
    page = lake.snapshots.page(lake.refs.resolve("main").logged, limit=5)
    assert page.next_token
    at = lake.catalogs.references(other).resolve("main").logged
    elsewhere = type(lake.snapshots)(lake.kernel, other.id)
    for refused in (
        lambda: elsewhere.page(at, token=page.next_token),
        lambda: lake.snapshots.page(at, token="?"),
        lambda: lake.snapshots.page(at, token=page.next_token + "x"),  # type: ignore[operator]
        lambda: lake.snapshots.page(at, limit=0),
        lambda: lake.snapshots.page(at, limit=10_001),
    ):
        with pytest.raises(InvalidInput):
            refused()


@pytest.mark.parametrize("gone", [CONTENT.name, STRIPE.name, "entry"])
def test_a_state_with_a_missing_part_is_expired_and_never_served_in_part(tmp_path: Path, gone: str) -> None:
    """Once a sweep has taken anything of it; another process, so that no cache hides the loss."""
    url = embedded_url("sqlite", tmp_path)
    with open_lake(url) as lake:
        keys = fill(lake)
        token = lake.snapshots.page(lake.refs.resolve("main").logged, limit=5).next_token
        at = lake.refs.resolve("main").logged
    with open_store(url) as store:
        backend = store.backend
        rows = [row for split in backend.splits(Table.OBJECTS, 1) for row in backend.scan(split) if row.type == gone]
        assert rows
        assert backend.delete_scanned(rows).deleted == len(rows)
        snapshots = Snapshots(store.kernel("test#0000000000000001"), 1)
        for read in (
            lambda: snapshots.page(at),
            lambda: snapshots.page(at, token=token),
            lambda: snapshots.get(at, keys),
        ):
            with pytest.raises(CursorExpired):
                read()
