"""The HTTP feed.

Read feed_routes, call, feed_query, named_branch, changes, page_json, stream, stream_connection, feed_handlers, commit_route,
reference_log_route; then service, feed_metrics.
"""
