"""Records under a pointer, and small records in mutable rows.

Read records, resting_records, principal_records, secret_hashes, idempotency_rows, subscriptions, metadata_copies,
directory_checkpoints.
"""
