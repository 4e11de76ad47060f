"""Catalogs elsewhere, read over HTTP.

Read upstream, iceberg_source, nessie_source, feed_source.
"""
