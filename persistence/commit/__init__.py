"""One commit, from a request to a landed compare-and-swap.

Read commit_request, commit_outcome; then committer, lane, draft, attempt; then retries, contention, linger, prefetch,
replies; then request_search, landed_elsewhere; then observer, observed_committer.
"""
