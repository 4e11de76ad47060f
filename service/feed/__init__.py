"""The HTTP feed. Read feed_endpoint, feed_routes, feed_query, changes, stream, feed_handlers, commit_route."""
