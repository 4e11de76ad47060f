"""Checked Changes from Kafka.

Read kafka_source, kafka_topics, topic_watch, generation_order, kafka_chains, kafka_positions, kafka_reader.
"""
