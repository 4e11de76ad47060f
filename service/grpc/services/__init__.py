"""The rows of the method table, one module for each service: how its messages become requests, and responses messages.

Read tenant_rpcs, token_rpcs, catalog_rpcs, reference_rpcs, directory_rpcs, namespace_rpcs, table_rpcs, view_rpcs,
snapshot_rpcs, feed_rpcs, subscription_rpcs, statistics_rpcs, planning_rpcs, bundle_rpcs, connector_rpcs.
"""
