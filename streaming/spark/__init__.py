"""Starting Spark and running streams on it. Read session, package_zip, stream_runner, spark_errors, hadoop_files."""
