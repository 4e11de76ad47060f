"""The catalogs of a realm.

Read catalog_records, catalog_settings, storage_claims, catalogs, catalog_updates.
"""
