"""The directory of a catalog: which keys have held a content id, kept by following the logs of its references.

Read key_table, known_keys, followed_logs, catalog_directory, directories.
"""
