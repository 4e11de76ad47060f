"""From catalog operations to a planned commit, or to every conflict.

Read operations, conflicts, catalog_commit; then commit_meta, operations_json.
"""
