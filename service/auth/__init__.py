"""Authentication and authorization of requests.

Read caller, tokens/ (who calls), rights/ (what they may do); then access, feed_view, obligation_guard,
housekeeping.
"""
