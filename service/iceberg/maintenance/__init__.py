"""Maintenance of Iceberg tables by commits.

Read snapshot_expiry.
"""
