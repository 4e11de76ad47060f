"""Checked Changes from Kafka.

Read kafka_source, kafka_topics, kafka_chains, kafka_positions, kafka_reader.
"""
