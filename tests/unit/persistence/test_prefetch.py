"""What the requests of one batch look up is read together."""

from __future__ import annotations

import headwater
from headwater.embedded import commit_meta
from headwater.persistence.commit.commit_outcome import CommitOutcome
from headwater.persistence.rows import Table
from headwater.producer.commits.catalog_commit import CatalogCommit
from headwater.schemas.errors import ObjectNotFound
from tests.support.faults.faulty_backend import FaultyBackend
from tests.support.models.commit_harness import Lanes, store_on

TABLES = 64


def put(number: int, location: str) -> headwater.Put:
    return headwater.Put((f"t{number:03d}",), headwater.IcebergTable(location))


def cold_lanes(engine: headwater.Headwater, realm: str, **options: int) -> tuple[Lanes, FaultyBackend]:
    backend = FaultyBackend(engine.store.backend)
    return Lanes(store_on(backend, **options).kernel(realm)), backend


def requests(lanes: Lanes) -> list[CatalogCommit]:
    return [CatalogCommit(lanes.kernel, [put(number, "new")], commit_meta("me")) for number in range(TABLES)]


def test_a_batch_that_finds_nothing_in_the_cache_reads_in_bulk() -> None:
    with headwater.open("memory://", create=True) as engine:
        branch = engine.ensure_realm("r").create_catalog("lake").branch()
        branch.commit([put(number, "old") for number in range(TABLES)])
        lanes, backend = cold_lanes(engine, engine.realm("r").kernel.realm)
        answers = lanes.together(branch.pointer, *requests(lanes))
        assert all(isinstance(answer, CommitOutcome) for answer in answers)
        # The head entry, its tail, the index, the contents; without foresight 64 reads more.
        assert backend.calls["fetch_objects"] <= 6
        assert next(branch.changes(after=2)).operations[0].before == {"metadata_location": "old"}


def test_a_missing_content_fails_only_its_own_request() -> None:
    with headwater.open("memory://", create=True) as engine:
        branch = engine.ensure_realm("r").create_catalog("lake").branch()
        branch.commit([put(number, "old") for number in range(TABLES)])
        kernel = engine.realm("r").kernel
        lost = next(op.after_id for op in kernel.walk.load(bytes.fromhex(branch.info().commit_id)).entry.operations)
        backend = engine.store.backend
        rows = [row for split in backend.splits(Table.OBJECTS, 1) for row in backend.scan(split) if row.id == lost]
        assert backend.delete_scanned(rows).deleted == 1
        lanes, _ = cold_lanes(engine, kernel.realm)
        answers = lanes.together(branch.pointer, *requests(lanes))
        assert [type(answer) for answer in answers].count(ObjectNotFound) == 1
        assert sum(isinstance(answer, CommitOutcome) for answer in answers) == TABLES - 1
