"""The contract with the outside: the Change record, its encodings, cursors and errors. Imports nothing of ours.

Read change, entry_ids, errors; then cursor, filters, frame, redaction; then topics, kafka_records, asyncapi; then avro/,
protobuf/ and http/. extras names the package extra that installs an optional dependency.
"""
