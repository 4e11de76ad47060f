"""Authentication and authorization of requests.

Read caller, tokens/ (who calls), rights/ (what they may do); then access, commit_rights, feed_view, obligation_guard,
housekeeping.
"""
