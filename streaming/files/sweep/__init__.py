"""Which files the retained states of a store need, and whether they are there.

Read retained_contents, marking, verify_files.
"""
