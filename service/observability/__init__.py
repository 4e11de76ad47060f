"""Metrics, traces and logs of a worker. Read metrics, engine_metrics, tracing, logs."""
