"""From catalog operations to a planned commit, or to all its conflicts.

Read operations, conflicts, commit_gate, owned_paths, catalog_commit; then commit_meta, operations_json.
"""
