"""Feed pages, states, subscriptions, commits and tasks, free of any transport.

Read realm_feeds, feed_pages, feed_wait, encoded_entries; then states, pointers, subscriptions, commits, task_runner.
"""
