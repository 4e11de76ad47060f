"""Table metadata as plain JSON values: requirements are checked and updates applied, without files or branches.

Read shapes, schema_json, table_requests, requirements, new_table, table_builder, added_parts, snapshot_updates,
table_snapshots, snapshot_retention, file_names; view_shape and view_updates for views.
"""
