"""Merges and transplants that wait in one batch with other commits, and those to branches that are not there."""

from __future__ import annotations

import pytest

from headwater.producer.commits.catalog_commit import CatalogCommit
from headwater.producer.commits.operations import Put
from headwater.producer.content.content_types import IcebergTable
from headwater.producer.merging.merge import MergeRequest
from headwater.producer.merging.transplant import TransplantRequest
from headwater.schemas.change import Kind
from headwater.schemas.errors import ReferenceNotFound
from tests.support.fixtures.catalog_lake import META, open_lake


@pytest.mark.parametrize("waiting", [1, 2, 3, 7, 24, 25, 26, 60])
def test_a_merge_after_commits_of_its_own_batch_finds_the_base(waiting: int) -> None:
    with open_lake(f"memory://merge-behind-{waiting}") as lake:
        lake.put("t")
        lake.refs.create("dev", meta=META)
        lake.put("new")
        source = lake.refs.resolve("main")
        commits = [CatalogCommit(lake.kernel, [Put((f"d{n}",), IcebergTable("s3://1"))], META) for n in range(waiting)]
        merge = MergeRequest(lake.kernel, source.logged, source.pointer, META)
        again = MergeRequest(lake.kernel, source.logged, source.pointer, META)
        answers = lake.together("dev", *commits, merge, again)
        assert answers[-2].logged is not None
        assert answers[-2].logged.entry.kind is Kind.MERGE
        assert [op.key for op in answers[-2].logged.entry.operations] == [("new",)]
        assert answers[-1].logged is None, "what the batch has merged already adds nothing"


@pytest.mark.parametrize("deleted", [False, True], ids=["never there", "deleted"])
def test_nothing_is_merged_or_transplanted_into_a_branch_that_is_not_there(deleted: bool) -> None:
    with open_lake(f"memory://merge-nowhere-{deleted}") as lake:
        lake.put("t")
        if deleted:
            lake.refs.create("dev", meta=META)
            lake.refs.delete("dev", meta=META)
        source = lake.refs.resolve("main")
        for request in (
            MergeRequest(lake.kernel, source.logged, source.pointer, META),
            TransplantRequest(lake.kernel, [source.logged], META),
        ):
            with pytest.raises(ReferenceNotFound):
                lake.kernel.committer.commit(lake.pointer("dev"), request)
