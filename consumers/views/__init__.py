"""Live views: the newest state of each table, folded from Changes.

Read live_views, table_views, record_views; then store_lookup, server_lookup;
then table_source, table_topic; then faust_transport, faust_app.
"""
