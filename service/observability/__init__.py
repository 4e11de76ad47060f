"""Metrics, traces and logs of a worker.

Read metrics, read_again, engine_metrics, publisher_metrics, maintenance_metrics, tracing, log_files, logs, audit.
"""
