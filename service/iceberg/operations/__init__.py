"""Namespaces, tables, views and events of an Iceberg catalog, free of HTTP, so that every door can share them."""
