"""A sweep of files on Spark's workers, by the same steps as in one process.

Read worker_files; then mark_tasks, list_tasks, delete_tasks (what travels to workers); then spark_listing and spark_marks.
"""
