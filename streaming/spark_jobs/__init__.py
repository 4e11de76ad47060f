"""Retained sets, sweeps and purges on Spark executors.

Read retained_job, topic_bookmarks, topic_query, retained_rows, spark_walk, spark_seed, job_watch; then spark_executor,
spark_ids, spark_sweep_tasks, spark_purge.
"""
