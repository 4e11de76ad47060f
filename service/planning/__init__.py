"""Which files a scan of a table's snapshot reads, free of any transport.

Read avro_blocks, bounded_avro, manifest_cache, manifest_reader, equality_ranges, delete_index, scan_filter, file_planner,
file_json.
"""
