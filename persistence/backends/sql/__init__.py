"""What SQLite and PostgreSQL share: tables, statements, scan ranges and checks of input.

Read tables, keys, statements, key_ranges, sql_backend.
"""
