"""The Iceberg REST catalog API. What it does, free of HTTP, is in operations/.

Read iceberg_endpoint, routes, rights, call, plain_handlers, content_handlers, event_handlers; then metadata/ and operations/;
then error_shape, retry_priority.
"""
