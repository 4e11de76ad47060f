"""What a log entry is, and how the log is walked.

Read log_entry, jump_links, log_walk, head, committed_requests, purged_pointers.
"""
