"""Statistics of tables, free of any transport.

Read snapshot_lookup, statistics_operations, unlisted_statistics.
"""
