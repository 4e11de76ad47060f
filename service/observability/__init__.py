"""Metrics, traces and logs of a worker.

Read metrics, engine_metrics, publisher_metrics, maintenance_metrics, tracing, logs.
"""
