"""The catalogs of a realm.

Read catalog_records, storage_claims, catalogs, catalog_updates.
"""
