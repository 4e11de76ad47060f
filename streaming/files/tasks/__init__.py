"""Deletes the files of tables that were dropped with PURGE, when nothing retained needs them any more.

Read task_files, task_holds, forgetting, then task_purge; and doomed_files, for realms and catalogs that are purged.
"""
