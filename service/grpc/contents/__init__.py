"""Namespaces, tables and views of a branch as the services name them: by id or by name.

Read references, iceberg_request, content_routes, table_metadata.
"""
