"""The content types of a catalog, and its contents at one entry.

Read content_types, folding, snapshots.
"""
