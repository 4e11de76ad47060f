"""Reads the files that retained states need, and deletes none: whether all are there, and what each commit brings.

Read verify_files, follow.
"""
