"""From a request to a landed compare-and-swap.

Read committer, lane, draft, attempt; then retries, contention, linger, prefetch, replies, observer.
"""
