"""What a table or view references, read from its metadata.

Read reading (how faults are treated), manifests, iceberg_tables, iceberg_views, delta_logs, delta_versions,
delta_states.
"""
