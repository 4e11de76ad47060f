"""Live views of Changes. Read live_views, table_views, record_views; then table_topic and faust_app."""
