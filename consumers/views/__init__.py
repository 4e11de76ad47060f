"""Live views: the newest state of each table, folded from Changes.

Read live_views, table_views; store_lookup, server_lookup, views_lookup, record_views; then table_source, table_topic; then
faust_transport, faust_app, views_worker.
"""
