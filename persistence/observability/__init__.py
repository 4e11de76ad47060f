"""Prometheus metrics and OpenTelemetry spans of the engine. Observability costs nothing when disabled.

Read metrics, spans; the hook that both implement is persistence/commit/observer.py.
"""
