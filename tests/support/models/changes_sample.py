"""One Change that uses every field of the contract, for tests of encodings."""

from __future__ import annotations

from headwater.schemas.change import Base, Change, Kind, Op, Operation, Source

HASH = "0123456789abcdef" * 4

FULL_CHANGE = Change(
    realm="default",
    pointer="cat/1/heads/main",
    seq=7,
    entry_id=HASH,
    kind=Kind.MERGE,
    commit_id=HASH,
    parent_id="f" * 64,
    head_before="e" * 64,
    time="2026-11-16T01:02:03.000004Z",
    author="ada",
    message="Größe ✓",
    headers={"ticket": "42"},
    request_id="r-1",
    operations=(
        Operation(
            op=Op.PUT,
            key=("db", "orders"),
            content_id="00000000-0000-0000-0000-000000000001",
            type="ICEBERG_TABLE",
            before=None,
            after={
                "metadata_location": "s3://lake/1.json",
                "snapshot_id": 2**62,
                "schema_id": 0,
                "nested": {"list": [1, None]},
            },
        ),
        Operation(
            op=Op.RENAME,
            key=("db", "new"),
            content_id="00000000-0000-0000-0000-000000000002",
            type="ICEBERG_VIEW",
            before={"metadata_location": "s3://lake/v.json"},
            after={"metadata_location": "s3://lake/v.json"},
            from_key=("db", "old"),
        ),
    ),
    objects_added=("0000000000000001",),
    objects_released=("0000000000000002", "0000000000000003"),
    base=Base(pointer="cat/1/heads/dev", seq=3, commit_id="d" * 64),
    source=Source(pointer="cat/1/heads/dev", commit_id="c" * 64),
)
