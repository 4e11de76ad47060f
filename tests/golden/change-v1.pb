
defaultcat/1/heads/main"@0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef*merge2@0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef:@ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffB@eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeJ2026-11-16T01:02:03.000004ZRadaZGrÃ¶ÃŸe âœ“b
ticket42jr-1r»
putdborders$00000000-0000-0000-0000-000000000001"ICEBERG_TABLE2s{"metadata_location":"s3://lake/1.json","nested":{"list":[1,null]},"schema_id":0,"snapshot_id":4611686018427387904}r¢
renamedbnew$00000000-0000-0000-0000-000000000002"ICEBERG_VIEW*({"metadata_location":"s3://lake/v.json"}2({"metadata_location":"s3://lake/v.json"}:db:oldz0000000000000001‚0000000000000002‚0000000000000003ŠU
cat/1/heads/dev@dddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd’S
cat/1/heads/dev@cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc