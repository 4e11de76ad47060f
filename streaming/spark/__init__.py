"""Starts Spark and runs streams on it. No other folder knows how Spark starts.

Read session, worker_daemon, package_zip, stream_runner, spark_errors, hadoop_files, kubernetes_executor.
"""
