"""A cursor becomes an ordered, checked sequence of Changes, over any transport.

Read clients/, kafka/, views/; then webhooks/ and audit/. Leaf rules: backoff, durable_files.
"""
