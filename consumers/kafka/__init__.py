"""Checked Changes from Kafka.

Read kafka_source, kafka_topics, kafka_progress, topic_watch, generation_order, kafka_positions, kafka_chains, kafka_partition,
log_repair, retention_check, oauth_tokens, kafka_reader.
"""
