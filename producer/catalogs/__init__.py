"""The catalogs of a realm.

Read catalog_records, catalogs, catalog_updates.
"""
