"""Commands for connectors: keeping them, and reconciling.

Read local_connectors, connector, reconcile.
"""
