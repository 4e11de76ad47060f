"""Catalogs elsewhere, read over HTTP, and tables on object storage.

Read upstream, iceberg_source, nessie_source, feed_source, delta_source.
"""
