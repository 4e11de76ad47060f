"""Publishes the log to Kafka: each entry once, in order per pointer, even if processes die.

Read options, kafka/, assignment/, shards/; then publisher, publish_once, factory, publish_lag, topic_removal.
"""
