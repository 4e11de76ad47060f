"""Feed pages, states, subscriptions, commits and tasks, free of any transport.

Read realm_feeds, feed_pages, encoded_entries; followers, feed_hub, fan_out, feed_polls, timer_wheel,
stopping; then states, pointers, subscriptions, commits, task_runner.
"""
