"""Catalogs elsewhere, read over HTTP or Thrift, and tables on object storage.

Read upstream, iceberg_source, nessie_source, feed_source; then delta_planning, delta_source; then thrift_calls, hive_events,
hive_source.
"""
