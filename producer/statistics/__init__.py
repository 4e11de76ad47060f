"""Statistics of tables: one set per table and snapshot, with totals, columns and files.

Read column_order, statistics_checks; then statistics_chunks, chunk_merge, statistics_journal,
statistics_records, statistics_write, statistics_sets.
"""
