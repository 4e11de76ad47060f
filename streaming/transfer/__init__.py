"""Exports a realm to a file, and imports it into another store, proved row by row.

Read file_format, file_records, checked_file, new_file; then consistent_cut, export_pin, exported_requests, exporting; then
loading, chain_check, import_record, importing.
"""
