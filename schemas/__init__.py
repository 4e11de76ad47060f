"""The contract with the outside: the Change record, its encodings, cursors and errors. Imports nothing of ours.

Read change, entry_ids, errors; then cursor, filters, frame, redaction; then topics, value_format, kafka_records, asyncapi; then
avro/, protobuf/, http/ and rpc/; then statistics. whole_numbers
reads numbers that others wrote; extras names the package extra that installs an optional dependency.
"""
