"""Spark data sources: `format("headwater")` reads the log, `format("headwater_rows")` the tables of a store, on the executors.

Read log_options, log_offsets, log_heads, log_filters, linked_batches, change_rows, server_log, server_heads, log_source; then
open_stores, rows_source, kafka_changes.
"""
