"""Catalogs that connectors follow, as real servers on loopback.

Read nessie, hive.
"""
