"""Management routes about tables.

Read statistics.
"""
