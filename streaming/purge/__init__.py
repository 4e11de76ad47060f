"""Removes realms and catalogs that were dropped.

Read purge, catalog_purge, external_resources.
"""
