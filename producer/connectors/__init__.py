"""Bridge mode: what another catalog did is committed here as observed.

Read source_spi, connector_records, source_positions, reconcile_jobs, connector_views; then bridge_plan, destination,
log_bridge, bounded_listing; polled_names, polled_state, full_rescan, poll_bridge.
"""
