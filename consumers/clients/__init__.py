"""Checked Changes from any transport.

Read transport, chain, positions, reader; then feed_http, connection, client_credentials, http_poll, sse, grpc_stream/,
realm_watch, local_feed, local_transport, cursor_file.
"""
