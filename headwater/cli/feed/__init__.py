"""Commands that publish, read and audit the feed.

Read publish; then subscribe and webhook over feed_sources; then audit over audit_sources.
"""
