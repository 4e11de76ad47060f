"""Namespaces, tables and views of an Iceberg catalog, free of HTTP.

Read lakes, lake_branch, namespaces, tables, table_commits, table_locations, views; then metadata_files, metadata_cache,
content_metadata, coalesced_reads, key_locks; then delegation, update_headers, purging.
"""
