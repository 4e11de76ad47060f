"""Removing realms and catalogs that were given up. Read purge, catalog_purge, external_resources."""
