"""Publishes the log to Kafka: each entry once, in order per pointer, whatever process dies.

Read options, kafka/, assignment/, shards/; then publisher, publish_once, factory, publish_lag, topic_removal.
"""
