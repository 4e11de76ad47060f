"""Catalog operations become commits, and the log becomes Kafka records.

Read pointer_names, content/, commits/, references/, catalogs/; then history/, merging/ and access/; then statistics/, plans/
and connectors/; then publisher/. Leaf rules: json_safety, random_ids, page_tokens, immediate_tasks,
forgotten_tables. record_views shows records as the management API does.
"""
