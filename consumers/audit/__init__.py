"""Proves that a history is complete and unaltered, or names the first entry that is not.

Read verify, replay; then the sources store_history, server_history, kafka_history, files.
"""
