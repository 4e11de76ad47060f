"""Connectors at work: sources, jobs and turns.

Read sources/, source_secrets, source_factories, connector_operations, reconcile_run, reconcile_turns, reconciler; then
source_plans.
"""
