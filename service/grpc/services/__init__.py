"""The rows of the method table, one module for each service: how its messages become requests, and responses messages.

Read catalog_rpcs, namespace_rpcs, table_rpcs, feed_rpcs, subscription_rpcs.
"""
