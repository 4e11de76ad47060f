"""The history of a catalog, read backwards: what `git log` and `git reflog` show of a repository.

Read lineage, reference_log.
"""
