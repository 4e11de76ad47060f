"""The HTTP feed.

Read feed_endpoint, feed_routes, feed_query, changes, page_json, stream, feed_handlers, commit_route; then service,
feed_metrics.
"""
