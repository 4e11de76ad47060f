"""What a log entry is, and how the log is walked.

Read log_entry, jump_links, log_walk, head, purged_pointers.
"""
