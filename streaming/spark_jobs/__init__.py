"""Retained sets and sweeps on Spark executors. Read retained_job, retained_rows, spark_walk, spark_seed, spark_executor."""
