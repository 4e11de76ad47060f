"""Maintenance: Changes become retained sets, sweeps, purges and archives. Jobs run on Spark where data are large.

Read runs/, expire/, reachability/, retained/, sweep/ (no Spark); then spark/, sources/, spark_jobs/; then purge/, archive/,
transfer/; then files/, the tables' own files; then schedule, the cycle over all of it, and stream/, one process that runs it.
tcp_probe is a leaf rule.
"""
