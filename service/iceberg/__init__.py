"""The Iceberg REST catalog API. What it does, free of HTTP, is in operations/.

Read routes, rights, call, plain_handlers, table_access, content_handlers, plan_handlers, event_handlers; then metadata/,
operations/, plans/, events/ and maintenance/; then put_checks (for all APIs), error_shape, retry_priority.
"""
