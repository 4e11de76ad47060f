"""`headwater demo`: several writers, a follower, a kill -9 in the middle, and a check that nothing is lost.

Read run, workload, writer, writer_processes, journal, follower, checks, summary; then maintenance, backdated_history,
spark_startup, maintenance_checks; then pipeline, pipeline_readers.
"""
